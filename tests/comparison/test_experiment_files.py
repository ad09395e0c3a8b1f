"""TOML files of experiments: the rows they define, and one-line errors for wrong ones."""

import pytest

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.comparison.experiments import Figure, read_experiments

TABLE = {
    "name": '"one"',
    "task": '"classify"',
    "presets": '["trec"]',
    "records": '"runs.jsonl"',
    "figures": '{ accuracy = "accuracy" }',
    "rows": '[{ name = "soft", model = "bilstm_soft" }]',
}


def read(folder, **changed):
    keys = {**TABLE, **changed}
    text = "[[table]]\n" + "".join(f"{name} = {value}\n" for name, value in keys.items() if value)
    (folder / "table.toml").write_text(text, encoding="utf-8")
    return read_experiments(folder / "table.toml")[0]


def test_options_may_be_tables_or_dotted_names(tmp_path):
    rows = '[{ model = "bilstm_soft", set.model.units = 4, set.training.steps = 8 }]'
    (tables,) = read(tmp_path, rows=rows).rows
    dotted = rows.replace("set.model.units = 4, set.training.steps = 8", 'set = {"model.units"=4}')
    (names,) = read(tmp_path, rows=dotted, set='{"training.steps" = 8}').rows
    assert tables.settings == names.settings == {"model.units": 4, "training.steps": 8}
    assert tables.name == "bilstm_soft, units=4, steps=8"


def test_an_option_that_is_a_table_stays_one(tmp_path):
    rows = '[{ model = "transformer", set.model.attention_options = { alpha = "learned" } }]'
    (row,) = read(tmp_path, rows=rows, set='{ model.attention = "coda" }').rows
    assert row.settings["model.attention_options.alpha"] == "learned"
    assert any("learned" in setting for setting in row.key("test")[-1])


def test_every_attention_has_a_row_and_is_not_compared_with_itself(tmp_path):
    attentions = '["coda", "softmax"]'
    table = read(
        tmp_path, rows="", attentions=attentions, model='"transformer"', against='"softmax"'
    )
    assert [(row.name, row.against) for row in table.rows] == [("coda", "softmax"), ("softmax", "")]


def test_figures_have_a_divisor_decimals_and_a_direction(tmp_path):
    table = read(tmp_path, figures='{ FLOPs = ["attention_flops", 1e6, 1], accuracy = "accuracy" }')
    assert table.figures == {
        "FLOPs": Figure("attention_flops", 1e6, 1),
        "accuracy": Figure("accuracy", 1.0, 4),
    }
    assert [figure.sign for figure in table.figures.values()] == [-1, 1]
    assert table.choose == "attention_flops"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": ""}, "has no 'name'"),
        ({"name": "1"}, "'name' is 1: it must be text"),
        ({"figures": ""}, "has no 'figures'"),
        ({"figures": "[]"}, "'figures' is []: it must be a table"),
        ({"figures": "{ a = 1 }"}, "figure 1: it must be a name, or a list"),
        ({"figures": "{ a = [] }"}, "figure []: it must be a name, or a list"),
        ({"figures": '{ a = ["accuracy", 0] }'}, "figure ['accuracy', 0]"),
        ({"figures": '{ a = ["accuracy", 1, -1] }'}, "figure ['accuracy', 1, -1]"),
        ({"figures": '{ a = ["accuracy", 1, 2, 3] }'}, "figure ['accuracy', 1, 2, 3]"),
        ({"seeds": '"3"'}, "'seeds' is '3': it must be a positive integer"),
        ({"seeds": "0"}, "'seeds' is 0: it must be a positive integer"),
        ({"presets": "[1]"}, "'presets' is [1]: each of its values must be text"),
        ({"data": "{ trec = 1 }"}, "each of its values must be text"),
        ({"rows": "[]"}, "has no row"),
        ({"figures": '{ a = ["accuracy", inf] }'}, "figure ['accuracy', inf]"),
        ({"seeds": "true"}, "'seeds' is True: it must be a positive integer"),
        ({"presets": '"trec"'}, "'presets' is 'trec': it must be a list"),
        ({"presets": '["trce"]'}, "did you mean 'trec'"),
        ({"task": '"clasify"'}, "did you mean 'classify'"),
        ({"policy": '"float16"'}, "unknown precision policy 'float16'"),
        ({"prestes": '["trec"]'}, "did you mean 'presets'"),
        ({"grid": "{ training.learning_rate = 0.1 }"}, "it must be a list of values"),
        ({"grid": "{ training.learning_rate = [] }"}, "it must be a list of values"),
        ({"grid": "{ training.rate = [1] }"}, "unknown option 'training.rate'"),
        ({"grid": "{ training.steps = [400, 1.5] }"}, "training.steps is 1.5: it must be of"),
        ({"grid": "{ model.units = [4], training.steps = [400, 0] }"}, "training.steps is 0: it"),
        ({"set": "{ model.unit = 3 }"}, "unknown option 'model.unit'"),
        ({"rows": "[3]"}, "row 3: it must be a table with a `name` or a `model`"),
        ({"rows": "[{}]"}, "row {}: it must be a table with a `name` or a `model`"),
        ({"rows": '[{ model = "bilstm_sofd" }]'}, "did you mean 'bilstm_soft'"),
        ({"rows": '[{ model = "bilstm_soft", seed = 1 }]'}, "unknown key 'seed'"),
        ({"rows": '[{ model = "bilstm_soft", paper = 0.9 }]'}, "it must be text or a table"),
        ({"against": '"coda"'}, "no row 'coda' on 'trec' to compare with"),
        ({"attentions": '["coda"]'}, "`attentions` need a `model`"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_the_table(changed, said, tmp_path):
    with pytest.raises(UserError) as wrong:
        read(tmp_path, **changed)
    message = str(wrong.value)
    assert said in message and "\n" not in message
    assert message.count("table.toml") == 1 and message.count(", table ") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("task = 'mlu'\n", "has no table"),
        ("table = 3\n", "has no table"),
        ("[[table]\n", "is not TOML"),
        ("\x00", "is not TOML"),
    ],
)
def test_what_is_no_file_of_tables_is_named(text, said, tmp_path):
    file = tmp_path / "none.toml"
    with pytest.raises(UserError, match="cannot read"):
        read_experiments(file)
    file.write_text(text)
    with pytest.raises(UserError, match=said):
        read_experiments(file)


def test_a_name_stands_for_one_table(tmp_path):
    read(tmp_path)
    file = tmp_path / "table.toml"
    file.write_text(file.read_text() * 2)
    with pytest.raises(UserError, match="more than one table 'one'"):
        read_experiments(file)

"""What KerasHub's own tests check of its blocks, caches and samplers, and which test here does.

Each row is one of their checks and our tests of the same, as `folder/file::test`, or the reason why
there is none. The list names what they check, not how: nothing of it is copied.
"""

import re
from pathlib import Path

import pytest

ENCODER = "layers/test_transformer_encoder.py"
DECODER = "layers/test_transformer_decoder.py"
CACHE = "layers/test_attention_cache.py"
CAUSAL = "models/test_causal_transformer.py"
DECODING = "models/test_decoding.py"
EXPORT = "models/test_decoding_export.py"
PROMPTS = "models/test_prompts.py"
SAMPLING = "models/test_sampling.py"

CHECKS = {
    # TransformerDecoder
    "a block with and one without cross-attention: shapes, weights, saving": [
        f"{DECODER}::test_every_constructor_argument_survives_save_and_load",
        f"{DECODER}::test_without_an_encoder_it_survives_save_and_load",
    ],
    "encoder given to a block without one, or left out, is an error": [
        f"{DECODER}::test_an_encoder_that_the_block_was_not_built_for_is_named"
    ],
    "training and dropout reach the parts": [
        f"{ENCODER}::test_symbolic_shapes_and_dropout_only_in_training",
        f"{DECODER}::test_build_makes_every_weight_and_each_one_learns",
    ],
    "invalid arguments are refused": [
        f"{ENCODER}::test_bad_arguments_are_named",
        f"{DECODER}::test_bad_calls_are_named",
    ],
    "an implicit mask counts and travels on": [
        f"{DECODER}::test_implicit_masks_count_travel_on_and_yield_to_explicit_ones"
    ],
    "encoder and decoder of different widths": [f"{DECODER}::test_steps_give_what_one_call_gives"],
    "attention scores are returned": [
        f"{DECODER}::test_weights_of_both_attentions_have_the_shape_they_say"
    ],
    "calls with a cache give what one call gives": [
        f"{DECODER}::test_steps_give_what_one_call_gives",
        f"{DECODER}::test_steps_without_an_encoder_give_what_one_call_gives",
    ],
    "a cache that one call fills (ours only at the beginning, where prompts stand)": [
        f"{DECODER}"
        "::test_the_first_positions_at_once_give_what_one_call_gives_and_so_does_the_step_after"
    ],
    # CachedMultiHeadAttention
    "attention with a cache, position by position, and by several at once": [
        f"{CACHE}::test_one_query_at_a_time_gives_the_rows_of_one_call",
        f"{CACHE}::test_a_cache_that_read_the_first_queries_at_once_goes_on_as_one_that_read_each",
    ],
    "the cache is one tensor (B, 2, L, N, H)": "Ours is a dict: keys and values differ in size, "
    "and a layer without plain projections keeps its queries.",
    # Samplers
    "greedy: the most likely token, step by step": [
        f"{DECODING}::test_greedy_takes_the_likeliest_token_and_stops_at_the_end"
    ],
    "a cache travels through the loop, and beams take theirs along": [
        f"{DECODING}::test_log_probabilities_are_those_of_a_full_pass"
    ],
    "a search stops early, once every row has ended": [
        f"{DECODING}::test_the_loop_stops_when_every_row_is_finished"
    ],
    "an end token within the prompt does not stop a row": [
        f"{PROMPTS}::test_an_end_in_a_prompt_ends_nothing_and_padding_anywhere_is_left_out",
        f"{PROMPTS}::test_an_end_in_a_prompt_ends_nothing_and_padding_anywhere_is_left_out",
    ],
    "top-k draws only of the k likeliest tokens": [
        f"{SAMPLING}::test_tokens_have_the_probabilities_of_the_model"
    ],
    "top-p draws only of the tokens that reach p, also after top-k": [
        f"{SAMPLING}::test_tokens_have_the_probabilities_of_the_model",
        f"{SAMPLING}::test_tokens_as_likely_as_the_last_may_be_drawn_and_rare_ones_at_one",
    ],
    "a temperature near 0 is greedy, and a seed repeats": [
        f"{SAMPLING}::test_of_one_token_it_draws_what_greedy_search_takes",
        f"{SAMPLING}::test_positions_rows_and_calls_draw_independently_and_a_seed_repeats",
    ],
    "beam search finds the best of its beams": [
        f"{DECODING}::test_a_wide_beam_finds_the_best_of_all_sequences",
        f"{DECODING}::test_beam_of_one_without_penalty_is_greedy",
    ],
    "beam search returns all beams": "Ours returns the best one, by a length penalty.",
    "samplers compile": [
        f"{PROMPTS}::test_one_graph_answers_prompts_of_all_lengths_alike",
        f"{EXPORT}::test_xla_decodes_alike",
    ],
    "samplers are serialized, and known by name": "Ours are functions and hold no state.",
    "contrastive and speculative sampling": "Not offered.",
    # CausalLM.generate
    "prompts of different lengths in one batch, from the end of the shortest": [
        f"{PROMPTS}::test_a_prompt_read_at_once_is_answered_as_one_read_step_by_step",
        f"{CAUSAL}::test_prompts_of_any_length_are_continued_as_a_full_pass_says",
    ],
    "a padding mask beside the prompt": [f"{PROMPTS}::test_padding_in_a_prompt_does_not_matter"],
    "another graph is not traced for every prompt": [
        f"{PROMPTS}::test_one_graph_answers_prompts_of_all_lengths_alike"
    ],
    "several stop tokens, or none": "One `end_id`; one that no token has, −1, stops nothing.",
    "strip_prompt": "The answer holds the prompt, whose length the caller knows.",
    "text in, text out": "Tokenizers belong to the tasks; `generate` takes and returns ids.",
}


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_has_a_test_or_a_reason(check):
    found = CHECKS[check]
    for path, name in (one.split("::") for one in found if isinstance(found, list)):
        text = (Path(__file__).parents[1] / path).read_text()
        assert re.search(rf"^def {name}\(", text, re.MULTILINE), f"{path} has no {name}"

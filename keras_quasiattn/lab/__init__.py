"""What needs a task or a run folder: reports, exports and searches of runs.

The packages beside this one (`report`, `serving`, `tuning`) work on any Keras model and import
nothing from here. Where one of them has a public function that is defined here, such as
`serving.export`, it looks the function up by name on first use (`extras.lazy_attributes`).
"""

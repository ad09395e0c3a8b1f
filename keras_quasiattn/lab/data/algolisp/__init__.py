"""AlgoLisp: a small functional language, problems in it, and a generator of problems."""

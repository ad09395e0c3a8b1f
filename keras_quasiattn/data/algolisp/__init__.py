"""AlgoLisp: programs described in words. The language, published problems and generated ones."""

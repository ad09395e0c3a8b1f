"""AlgoLisp: programs asked for in words, their language, the published problems and problems made by rule."""

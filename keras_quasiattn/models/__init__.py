"""Functional-API model builders."""

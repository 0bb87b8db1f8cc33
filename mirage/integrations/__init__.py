"""Adapters to other evaluation tools and data formats, one module each.

==============  ============  ====================================================================
module          needs         function
==============  ============  ====================================================================
``inspect_ai``  inspect-ai    datasets as tasks, features as scores, logs as runs
``lm_eval``     lm-eval       datasets as tasks, features as metrics, samples as runs
``ragas``       ragas         ragas datasets to and from datasets and runs; features as metrics
``deepeval``    deepeval      test cases to and from datasets and runs; features as metrics
``datasets``    extra hub     datasets, runs and feature tables to and from Hugging Face datasets
``frames``      extra frames  datasets, runs and feature tables to and from pandas and polars
``trec``                      run files and qrels for retrieved passages and cited passages
==============  ============  ====================================================================

This package imports none of the modules. If a tool is missing or too old, its module raises an
error with the command that installs it. The tools need conflicting versions of some packages, so
install each in its own environment.

``datasets`` and ``frames`` have the same columns:

===============  ==========================================================================
rows of          columns
===============  ==========================================================================
a dataset        ``id``, ``language``, ``text``, ``passages`` (a list of ``id``, ``text``,
                 ``title``, ``document``), ``relevant`` (a list of passage ids), ``reference``,
                 ``answerable``, ``answers`` and ``wrong_answers`` (lists of lists of forms),
                 ``cluster``, ``metadata`` (JSON)
a run            ``model``, ``language``, ``query_id``, ``text``, ``error``, ``repeat`` (from 0),
                 ``shown`` (a list of passage ids), ``passages`` (passages that were shown but are
                 not among the query's), ``reasoning``, ``cut_off``
a feature table  ``model``, ``language``, ``query_id``, one column per feature, ``not_computed``
                 (JSON: the reason by feature)
===============  ==========================================================================

Unknown values are null. If a column is missing, its value is unknown in every row. Metadata and
reasons are JSON because their keys differ between rows, and a typed column cannot store that.
"""

"""Adapters to other harnesses and their data, one module each, named after what it adapts to.

==============  ============  ====================================================================
module          extra         what it does
==============  ============  ====================================================================
``inspect_ai``  ``inspect``   a dataset as a task, features as scores, logs as runs
``lm_eval``     ``lm-eval``   a dataset as a task, features as metrics, samples as runs
``ragas``       ``ragas``     its datasets as ours and back; features as its metrics
``deepeval``    ``deepeval``  its test cases as ours and back; features as its metrics
``datasets``    ``hub``       datasets, runs and feature tables to and from Hugging Face datasets
``frames``      ``frames``    datasets, runs and feature tables to and from pandas and polars
``trec``                      run files and qrels: passages shown, and passages cited
==============  ============  ====================================================================

Nothing is imported here: each module says what to install where its package is not. Harnesses ask
for other versions than each other; give each an environment of its own.

``datasets`` and ``frames`` have the same columns:

===============  ==========================================================================
rows of          columns
===============  ==========================================================================
a dataset        ``id``, ``language``, ``text``, ``passages`` (a list of ``id``, ``text``,
                 ``title``, ``document``), ``relevant`` (a list of passage ids), ``reference``,
                 ``answerable``, ``answers`` and ``wrong_answers`` (lists of lists of forms),
                 ``cluster``, ``metadata`` (JSON)
a run            ``model``, ``language``, ``query_id``, ``text``, ``error``, ``shown`` (a list
                 of passage ids), ``passages`` (texts that were shown and the query lacks)
a feature table  ``model``, ``language``, ``query_id``, a column a feature, ``not_computed``
                 (JSON: the reason by feature)
===============  ==========================================================================

What is not known is missing, and a column that is missing altogether is not known in any row. The
keys of metadata and reasons differ by row, which a column of one type cannot hold: hence JSON.
"""

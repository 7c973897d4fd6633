/**
 * Thrown where an evaluation cannot be run as it is: its data set, its options or its files have to
 * be changed.
 */
export class EvalError extends Error {
  override readonly name = 'EvalError';
}

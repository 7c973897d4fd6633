import type { Results } from '@electric-sql/pglite';

/** The rows of one statement. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- what a row looks like only whoever asks knows
export function fromResults<Row extends object>([result]: readonly Results[]): readonly Row[] {
  return (result?.rows ?? []) as unknown as readonly Row[];
}

/**
 * The last cells of the rows of Markdown tables by the first ones, as they are written. A pipe
 * behind a backslash is part of its cell.
 */
export function lastCellsIn(markdown: string): ReadonlyMap<string, string> {
  const rows = markdown.split('\n').filter((line) => line.startsWith('|'));
  return new Map(
    rows.map((row) => {
      const cells = row.split(/(?<!\\)\|/).map((cell) => cell.trim());
      return [cells[1] ?? '', cells.at(-2) ?? ''];
    }),
  );
}

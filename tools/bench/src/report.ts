export type Value = string | number | boolean | null;

export interface Column {
  readonly key: string;
  readonly title: string;
  /** Digits behind the point. @default 2 */
  readonly digits?: number;
}

export interface Table {
  readonly title: string;
  readonly columns: readonly Column[];
  readonly rows: readonly Readonly<Record<string, Value>>[];
}

/** Something the project wants to hold, and whether it does in this run. */
export interface Target {
  readonly what: string;
  readonly value: number;
  readonly unit: string;
  readonly atMost: number;
}

export interface Skip {
  readonly what: string;
  readonly why: string;
}

/** The findings of one suite. */
export interface Section {
  readonly title: string;
  /** The method of measurement, so that the figures can be judged. */
  readonly method: readonly string[];
  readonly tables: readonly Table[];
  readonly targets: readonly Target[];
  readonly skipped: readonly Skip[];
}

export interface Suite {
  /** The name of the suite for `--only`. */
  readonly name: string;
  run(): Promise<Section>;
}

export function isMet({ value, atMost }: Target): boolean {
  return value <= atMost;
}

/** A section for people. */
export function toText(name: string, section: Section): string {
  const { title, method, tables, targets, skipped } = section;
  const parts = [
    `\n## ${name}: ${title}`,
    ...method.map((line) => `   ${line}`),
    ...tables.map((table) => `\n${table.title}\n${toTextTable(table)}`),
    ...(targets.length > 0 ? [`\n${targets.map(targetText).join('\n')}`] : []),
    ...skipped.map(({ what, why }) => `skipped: ${what}: ${why}`),
  ];
  return parts.join('\n');
}

function targetText(target: Target): string {
  const { what, value, unit, atMost } = target;
  return `${isMet(target) ? 'holds ' : 'MISSED'} ${what}: ${format(value, 2)} ${unit} (target: at most ${atMost} ${unit})`;
}

export function toTextTable({ columns, rows }: Table): string {
  const cells = [
    columns.map(({ title }) => title),
    ...rows.map((row) => columns.map(({ key, digits = 2 }) => format(row[key] ?? null, digits))),
  ];
  const widths = columns.map((_, column) =>
    Math.max(...cells.map((row) => row[column]?.length ?? 0)),
  );
  const isText = columns.map(({ key }) => rows.some((row) => typeof row[key] === 'string'));
  const lines = cells.map((row) =>
    row
      .map((cell, column) =>
        isText[column] ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join('  '),
  );
  const rule = widths.map((width) => '-'.repeat(width)).join('  ');
  return [lines[0], rule, ...lines.slice(1)].map((line) => `  ${line ?? ''}`.trimEnd()).join('\n');
}

function format(value: Value, digits: number): string {
  if (value === null) return '-';
  if (typeof value !== 'number') return String(value);
  return value.toLocaleString('en-US', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

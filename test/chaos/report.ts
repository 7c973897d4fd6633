import type { ChaosReport } from './chaos.js';

const COLUMNS: readonly (readonly [string, (report: ChaosReport) => string | number])[] = [
  ['database', ({ engine }) => engine],
  ['runs', ({ runs }) => runs],
  ['calls', ({ calls }) => calls],
  ['kills', ({ kills }) => kills],
  ['frozen', ({ frozen }) => frozen],
  ['cut', ({ cut }) => cut],
  ['cancelled', ({ cancelled }) => cancelled],
  ['delayed', ({ delayed }) => delayed],
  ['takeovers', ({ takeovers }) => takeovers],
  ['approvals', ({ approvals }) => approvals],
  ['keyed effects', ({ keyed }) => keyed],
  ['told twice', ({ repeated }) => repeated],
  ['made again', ({ madeAgain }) => madeAgain],
  ['nobody knows', ({ unknown }) => unknown],
  ['audit entries', ({ auditEntries }) => auditEntries],
  ['lost', ({ lost }) => lost],
  ['twice', ({ twice }) => twice],
  ['violations', ({ violations }) => violations.length],
  ['seconds', ({ seconds }) => seconds.toFixed(1)],
];

/** What happened, for people: a line for each database, and what must not have happened. */
export function toText(reports: readonly ChaosReport[]): string {
  const rows = [
    COLUMNS.map(([title]) => title),
    ...reports.map((report) => COLUMNS.map(([, cell]) => String(cell(report)))),
  ];
  const widths = COLUMNS.map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  const lines = rows.map((row) =>
    row.map((cell, column) => cell.padStart(widths[column] ?? 0)).join('  '),
  );
  const violations = reports.flatMap(({ engine, violations: found }) =>
    found.map((violation) => `${engine}: ${violation}`),
  );
  return [...lines, ...violations].join('\n');
}

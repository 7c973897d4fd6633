import type { EvalReport } from '@toolloop/protocol';
import { placesIn, type ReportVerdict, runsOf, verdictOn, whyOf } from './report-verdict.js';

/**
 * Writes a report for people: each case under each variant, and what the variants cost.
 *
 * @example
 * console.log(reportText(report));
 */
export function reportText(report: EvalReport, verdict: ReportVerdict = verdictOn(report)): string {
  const names = report.variants.map(({ name }) => name);
  const cases = [...new Set(report.runs.map((run) => run.case))];
  const rows = cases.map((name) =>
    [name].concat(names.map((variant) => cellOf(report, variant, name))),
  );
  const sums = (title: string, of: (one: EvalReport['variants'][number]) => string): string[] => [
    title,
    ...report.variants.map(of),
  ];
  const table = columns([
    ['', ...names],
    ...rows,
    sums('passed', ({ passed, runs }) => `${passed} of ${runs}`),
    sums('cost', ({ costUsd }) => (costUsd === undefined ? 'unknown' : `$${costUsd.toFixed(4)}`)),
    sums('tokens', ({ tokens }) => String(tokens)),
    sums('approvals', ({ approvals }) => String(approvals)),
    sums('median', ({ medianMs }) => `${medianMs} ms`),
  ]);
  return [table, ...complaints(report, verdict)].join('\n');
}

function cellOf(report: EvalReport, variant: string, name: string): string {
  const runs = runsOf(report, variant, name);
  const passed = runs.filter((run) => run.passed).length;
  if (passed === runs.length) return 'ok';
  return passed === 0 ? 'FAILED' : `${passed} of ${runs.length}`;
}

function complaints(report: EvalReport, { below, regressions }: ReportVerdict): readonly string[] {
  const failed = placesIn(report)
    .map(({ variant, name }) => ({ variant, name, why: whyOf(report, variant, name) }))
    .filter(({ why }) => why !== '');
  return [
    ...(failed.length > 0
      ? ['', ...failed.map(({ variant, name, why }) => `${name} (${variant}): ${why}`)]
      : []),
    ...(below.length > 0 ? ['', `Below the minimum: ${below.join(', ')}.`] : []),
    ...regressions.map(
      ({ case: name, variant, before, now }) =>
        `Worse than before: ${name} (${variant}), ${percent(before)} → ${percent(now)}.`,
    ),
  ];
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

function columns(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, at) =>
    Math.max(...rows.map((row) => (row[at] ?? '').length)),
  );
  return rows
    .map((row) =>
      row
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

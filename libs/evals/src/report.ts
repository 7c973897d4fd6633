import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { type EvalReport, type EvalRun, isRecord, type Verdict } from '@toolloop/protocol';
import { EvalError } from './eval.error.js';

/** A case that passed in an earlier report and does not now. */
export interface Regression {
  readonly case: string;
  readonly variant: string;
  readonly before: number;
  readonly now: number;
  /** The first thing that a scorer says of a run that did not pass. */
  readonly why: string;
}

/** The least that a report must reach. */
export interface Threshold {
  /** The share of runs that must pass in each variant, from 0 to 1. @default 1 */
  readonly minimum?: number;
  /** An earlier report: no case may pass less often than in it. @default none */
  readonly baseline?: EvalReport;
}

/** Says whether a report is as it must be, and what is wrong with it. */
export interface ReportVerdict {
  readonly isGood: boolean;
  readonly below: readonly string[];
  readonly regressions: readonly Regression[];
}

/**
 * Holds a report against what it must reach.
 *
 * @example
 * if (!verdictOn(report, { minimum: 0.9, baseline }).isGood) process.exitCode = 1;
 */
export function verdictOn(
  report: EvalReport,
  { minimum = 1, baseline }: Threshold = {},
): ReportVerdict {
  const below =
    baseline && minimum === 1
      ? []
      : report.variants.filter(({ passRate }) => passRate < minimum).map(({ name }) => name);
  const regressions = baseline ? regressionsOf(report, baseline) : [];
  return {
    isGood: below.length === 0 && regressions.length === 0 && report.runs.length > 0,
    below,
    regressions,
  };
}

function regressionsOf(report: EvalReport, baseline: EvalReport): readonly Regression[] {
  return placesIn(report).flatMap(({ variant, name }) => {
    const before = rateOf(baseline, variant, name);
    const now = rateOf(report, variant, name);
    return before === undefined || now === undefined || now >= before
      ? []
      : [{ case: name, variant, before, now, why: whyOf(report, variant, name) }];
  });
}

function placesIn({
  runs,
}: EvalReport): readonly { readonly variant: string; readonly name: string }[] {
  const known = new Map(
    runs.map((run) => [
      JSON.stringify([run.variant, run.case]),
      { variant: run.variant, name: run.case },
    ]),
  );
  return [...known.values()];
}

function runsOf({ runs }: EvalReport, variant: string, name: string): readonly EvalRun[] {
  return runs.filter((run) => run.variant === variant && run.case === name);
}

function rateOf(report: EvalReport, variant: string, name: string): number | undefined {
  const runs = runsOf(report, variant, name);
  return runs.length === 0 ? undefined : runs.filter(({ passed }) => passed).length / runs.length;
}

function whyOf(report: EvalReport, variant: string, name: string): string {
  const failed = runsOf(report, variant, name).flatMap(({ scores }) =>
    scores.filter(({ passed }) => !passed),
  );
  const [first] = failed;
  return first ? `${first.name}: ${first.why ?? 'not passed'}` : '';
}

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

/**
 * Reads a report from its JSON.
 *
 * @throws {EvalError} For what is none.
 */
export function reportIn(file: string): EvalReport {
  const value: unknown = JSON.parse(readFileSync(file, 'utf8'));
  if (!isRecord(value) || value['version'] !== 1 || !Array.isArray(value['runs']))
    throw new EvalError(`${file} is no report of version 1.`);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its version was checked
  return value as unknown as EvalReport;
}

/**
 * Adds what a person says about a run to a file of verdicts, one a line.
 *
 * @example
 * addVerdict('evals/verdicts.jsonl', {
 *   runId,
 *   verdict: 'wrong',
 *   why: 'It refunded twice.',
 *   by: 'mia',
 *   at: new Date().toISOString(),
 * });
 */
export function addVerdict(file: string, verdict: Verdict): void {
  appendFileSync(file, `${JSON.stringify(verdict)}\n`);
}

/**
 * Reads a file of verdicts; of each run and approval the last one.
 *
 * @throws {EvalError} For a line that is none, with its number.
 */
export function verdictsIn(file: string): readonly Verdict[] {
  if (!existsSync(file))
    throw new EvalError(
      `There is no file ${file}. Add a verdict first: toolloop eval verdict RUN right`,
    );
  const lines = readFileSync(file, 'utf8').split('\n');
  const all = lines.flatMap((line, index) =>
    line.trim() === '' ? [] : [verdictOf(line, `${file}:${index + 1}`)],
  );
  return [...new Map(all.map((one) => [`${one.runId} ${one.approvalId ?? ''}`, one])).values()];
}

function verdictOf(line: string, where: string): Verdict {
  const value = parsedLine(line);
  if (
    !isRecord(value) ||
    typeof value['runId'] !== 'string' ||
    (value['verdict'] !== 'right' && value['verdict'] !== 'wrong')
  )
    throw new EvalError(
      `${where} is no verdict: { "runId": "…", "verdict": "right" or "wrong", … }.`,
    );
  const { runId, verdict, approvalId, why, by, at } = value;
  return {
    runId,
    verdict,
    ...(typeof approvalId === 'string' && { approvalId }),
    ...(typeof why === 'string' && { why }),
    by: typeof by === 'string' ? by : '',
    at: typeof at === 'string' ? at : '',
  };
}

function parsedLine(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

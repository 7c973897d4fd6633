import type { EvalReport, EvalRun } from '@toolloop/protocol';

/** Says whether a report is as it must be, and what is wrong with it. */
export interface ReportVerdict {
  readonly isGood: boolean;
  readonly below: readonly string[];
  readonly regressions: readonly Regression[];
}

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

export function placesIn({
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

export function runsOf({ runs }: EvalReport, variant: string, name: string): readonly EvalRun[] {
  return runs.filter((run) => run.variant === variant && run.case === name);
}

function rateOf(report: EvalReport, variant: string, name: string): number | undefined {
  const runs = runsOf(report, variant, name);
  return runs.length === 0 ? undefined : runs.filter(({ passed }) => passed).length / runs.length;
}

export function whyOf(report: EvalReport, variant: string, name: string): string {
  const failed = runsOf(report, variant, name).flatMap(({ scores }) =>
    scores.filter(({ passed }) => !passed),
  );
  const [first] = failed;
  return first ? `${first.name}: ${first.why ?? 'not passed'}` : '';
}

import type { INestApplicationContext } from '@nestjs/common';
import {
  type LoopRequest,
  type LoopResult,
  PendingService,
  type RunHandle,
  ToolLoopService,
} from '@toolloop/core';
import {
  type EvalReport,
  type EvalRun,
  type LoopEvent,
  RunError,
  type Score,
  type VariantSummary,
} from '@toolloop/protocol';
import { redactPersonal } from '@toolloop/testing';
import type { DataSet, EvalCase } from './data-set.js';
import { EvalError } from './eval.error.js';
import { type Judge, judged } from './judge.js';
import { type Scorer, SCORERS } from './scorers.js';

/**
 * One of several ways to run the cases: another model, policy or prompt, or another application.
 * All else is the application's own.
 */
export interface Variant extends Pick<
  LoopRequest,
  | 'model'
  | 'policy'
  | 'instructions'
  | 'tools'
  | 'exclude'
  | 'limits'
  | 'surface'
  | 'history'
  | 'modelOptions'
  | 'injection'
> {
  /** Unique within an evaluation. */
  readonly name: string;
  /**
   * An application of its own, such as one with another policy: that of a request can only narrow
   * the application's. @default the evaluation's
   */
  readonly app?: INestApplicationContext;
}

/** Options of `evaluate`. */
export interface EvalOptions {
  /** @default the application as it is */
  readonly variants?: readonly Variant[];
  /** The number of runs of each case. @default 1 */
  readonly repeats?: number;
  /** The number of runs at once. @default 1 */
  readonly concurrency?: number;
  /** Scorers beside those of every evaluation. @default none */
  readonly scorers?: readonly Scorer[];
  /** The judge of cases that have a question. @default they are not judged */
  readonly judge?: Judge;
  /**
   * The person who answers the approvals of cases with `approvals: 'approve'`. @default the actor
   * of the case
   */
  readonly approver?: LoopRequest['actor'];
  /**
   * Removes from results what must not be stored. @default `redactPersonal` of `@toolloop/testing`
   */
  readonly redact?: (text: string) => string;
  /** Called with each run as it ends. */
  readonly onRun?: (run: EvalRun) => void;
  readonly signal?: AbortSignal;
}

/** A run as scorers see it. */
export interface ScoredRun extends Omit<
  EvalRun,
  'case' | 'variant' | 'repeat' | 'passed' | 'scores'
> {
  readonly output?: unknown;
}

interface Planned {
  readonly variant: Variant;
  readonly of: EvalCase;
  readonly repeat: number;
}

/**
 * Runs every case of a data set under every variant, through the application's own pipeline, and
 * scores each run. Effects happen: run it on an application with test data, or with its tools
 * replaced.
 *
 * @throws {EvalError} For options that cannot be used.
 *
 * @example
 * const report = await evaluate(app, dataSetIn('evals/refunds.json'), {
 *   variants: [
 *     { name: 'small', model: 'small' },
 *     { name: 'large', model: 'large' },
 *   ],
 *   repeats: 3,
 * });
 */
export async function evaluate(
  app: INestApplicationContext,
  { name, cases }: DataSet,
  options: EvalOptions = {},
): Promise<EvalReport> {
  const { variants = [{ name: 'as it is' }], repeats = 1, concurrency = 1 } = options;
  assertUsable(variants, repeats, concurrency);
  const planned = variants.flatMap((variant) =>
    cases.flatMap((of) =>
      Array.from({ length: repeats }, (_, index): Planned => ({ variant, of, repeat: index + 1 })),
    ),
  );
  const runs = Array.from<EvalRun | undefined>({ length: planned.length });
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < planned.length && !options.signal?.aborted; at = next++) {
      const plan = planned[at];
      if (!plan) return;
      const run = await runOf(plan.variant.app ?? app, plan, options);
      runs[at] = run;
      options.onRun?.(run);
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, planned.length) }, work));
  const made = runs.filter((run) => run !== undefined);
  return {
    version: 1,
    name,
    variants: variants.map((one) => summaryOf(one.name, made)),
    runs: made,
  };
}

function assertUsable(variants: readonly Variant[], repeats: number, concurrency: number): void {
  const names = variants.map(({ name }) => name);
  if (variants.length === 0 || new Set(names).size < names.length)
    throw new EvalError(
      `Variants need names of their own, and there must be one: ${names.join(', ')}.`,
    );
  for (const [option, value] of Object.entries({ repeats, concurrency }))
    if (!Number.isInteger(value) || value < 1)
      throw new EvalError(`${option} is ${value}. Give a whole number, 1 or more.`);
}

async function runOf(
  app: INestApplicationContext,
  { variant, of, repeat }: Planned,
  options: EvalOptions,
): Promise<EvalRun> {
  const { name, app: _app, ...changes } = variant;
  const startedAt = performance.now();
  const handle = app.get(ToolLoopService, { strict: false }).open({
    ...changes,
    ...(of.prompt === undefined ? { messages: of.messages ?? [] } : { prompt: of.prompt }),
    actor: of.actor,
    tenant: of.tenant,
    approvals: of.approvals === 'approve' ? 'wait' : 'deny',
    ...(of.context && { context: of.context }),
    ...(options.signal && { signal: options.signal }),
  });
  const failure = await watched(app, handle, of, options).then(
    () => undefined,
    (error: unknown) => error,
  );
  const result = await handle.result.catch((error: unknown) => {
    if (error instanceof RunError) return error.result;
    throw failure ?? error;
  });
  const run = scoredRun(result, performance.now() - startedAt);
  const scorers = [
    ...SCORERS,
    ...(options.judge ? [judged(options.judge)] : []),
    ...(options.scorers ?? []),
  ];
  const scores: Score[] = [];
  for (const scorer of scorers) {
    const score = await scorer.score(run, of);
    if (score) scores.push({ name: scorer.name, ...score });
  }
  return stored(
    {
      ...run,
      case: of.name,
      variant: name,
      repeat,
      passed: scores.every(({ passed }) => passed),
      scores,
    },
    options.redact,
  );
}

/**
 * Reads a run to its end, and gives the approvals that the case gives. What else it asks has no one
 * here to answer it.
 */
async function watched(
  app: INestApplicationContext,
  handle: RunHandle,
  of: EvalCase,
  { approver }: EvalOptions,
): Promise<void> {
  const pending = app.get(PendingService, { strict: false });
  const person = { actor: approver ?? of.actor, tenant: of.tenant };
  const answers: Promise<unknown>[] = [];
  const answer = (event: LoopEvent): void => {
    if (event.type === 'approval-request')
      answers.push(
        pending
          .answer({ approvalId: event.approval.approvalId, decision: 'approve' }, person)
          .catch((error: unknown) => {
            handle.cancel(
              `The approval could not be given: ${error instanceof Error ? error.message : String(error)}`,
            );
          }),
      );
    if (event.type === 'pending-request')
      handle.cancel(`The run asked a ${event.kind}, which an evaluation cannot answer.`);
  };
  for await (const event of handle) answer(event);
  await Promise.all(answers);
}

function scoredRun(result: LoopResult, durationMs: number): ScoredRun {
  const { runId, finishReason, text, output, usage, steps, error, finishDetail } = result;
  const told = error?.message ?? finishDetail;
  return {
    runId,
    finishReason,
    text,
    output,
    calls: result.toolCalls.map((record) => ({
      tool: record.declaredId ?? record.id,
      args: record.args ?? {},
      status: record.status,
      ...(record.error && { code: record.error.code }),
    })),
    approvals: result.toolCalls.filter(({ decision }) => decision?.kind === 'require_approval')
      .length,
    usage,
    steps,
    durationMs: Math.round(durationMs),
    ...(told !== undefined && { error: told }),
  };
}

/** The run as it is stored: JSON, with every text redacted. */
function stored({ ...run }: EvalRun & Pick<ScoredRun, 'output'>, redact = redactPersonal): EvalRun {
  const { output: _output, ...kept } = run;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a copy of the run, whose texts alone have changed
  return JSON.parse(JSON.stringify(kept), (_key, value: unknown) =>
    typeof value === 'string' ? redact(value) : value,
  ) as EvalRun;
}

function summaryOf(name: string, all: readonly EvalRun[]): VariantSummary {
  const runs = all.filter(({ variant }) => variant === name);
  const passed = runs.filter((run) => run.passed).length;
  const costs = runs.flatMap(({ usage }) => usage.costUsd ?? []);
  return {
    name,
    runs: runs.length,
    passed,
    passRate: runs.length === 0 ? 0 : passed / runs.length,
    flaky: flakyIn(runs),
    ...(costs.length > 0 && { costUsd: costs.reduce((sum, cost) => sum + cost, 0) }),
    tokens: runs.reduce((sum, { usage }) => sum + usage.inputTokens + usage.outputTokens, 0),
    approvals: runs.reduce((sum, { approvals }) => sum + approvals, 0),
    medianMs:
      runs.map(({ durationMs }) => durationMs).toSorted((one, other) => one - other)[
        Math.floor(runs.length / 2)
      ] ?? 0,
  };
}

function flakyIn(runs: readonly EvalRun[]): readonly string[] {
  const cases = [...new Set(runs.map((run) => run.case))];
  return cases.filter(
    (name) =>
      new Set(runs.filter((run) => run.case === name).map(({ passed }) => passed)).size === 2,
  );
}

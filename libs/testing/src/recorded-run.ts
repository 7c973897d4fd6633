import type { INestApplicationContext } from '@nestjs/common';
import type {
  JsonObject,
  JsonValue,
  LoopEvent,
  LoopResult,
  ToolInvocationRecord,
} from '@toolloop/core';
import { BoundedStores, parseJson, toJsonObject } from '@toolloop/core/internal';
import { RunService } from '@toolloop/core/runs';
import type { RunRecord } from '@toolloop/core/stores';
import { type FinishReason, isRecord, type LoopEventOf, type Message } from '@toolloop/protocol';
import { collect, eventsOf } from './expectations.js';
import { differencesOf, differenceText } from './json-difference.js';
import { type Redact, redacted, redactPersonal } from './redaction.js';
import { call, type ScriptedTurn, text, textAndCalls } from './scripted-model.js';
import { ExpectationError } from './testing.error.js';

/**
 * A run that was stored, as a file: what was asked for whom, what the model answered, and what
 * became of its calls.
 */
export interface RecordedRun {
  readonly version: 1;
  readonly runId: string;
  readonly prompt?: string;
  readonly messages?: readonly Message[];
  readonly actor: { readonly id: string };
  readonly tenant: string;
  /** The name of its loop. */
  readonly loop?: string;
  readonly steps: readonly RecordedStep[];
  readonly finishReason?: FinishReason;
  readonly text: string;
}

/** A call of a recorded run, as people may see it: hidden arguments are `[redacted]`. */
export interface RecordedCall {
  /** The rendered id, by which the model called it. */
  readonly tool: string;
  /** The declared id. Absent where no tool had the called one. */
  readonly declaredId?: string;
  readonly args: JsonObject;
  readonly status: ToolInvocationRecord['status'];
  /** The code of its error. */
  readonly code?: string;
  /** The decision of policy. */
  readonly decision?: 'allow' | 'deny' | 'require_approval';
}

/** One answer of the model. */
export interface RecordedStep {
  readonly text: string;
  /** In the order of the model. */
  readonly calls: readonly RecordedCall[];
}

/** The person who reads a run: its actor, or an operator who may see the runs of others. */
export interface RunReaderIdentity {
  readonly actor: unknown;
  readonly tenant: string;
}

/** Options of {@link recordRun}. */
export interface RecordRunOptions {
  /** @default {@link redactPersonal} */
  readonly redact?: Redact;
}

/**
 * Reads a durable run out of an application, redacted, so that a test or a case can be made of it.
 * The run service decides who may read it, and notes it in the audit where it is an operator.
 *
 * @throws {InvalidRequestError} `unknown_run` for the run of another person; also for one that is
 *   not durable, whose events are not kept.
 *
 * @example
 * const run = await recordRun(app, runId, { actor: operator, tenant: 'acme' });
 */
export async function recordRun(
  app: INestApplicationContext,
  runId: string,
  reader: RunReaderIdentity,
  { redact = redactPersonal }: RecordRunOptions = {},
): Promise<RecordedRun> {
  const runs = app.get(RunService, { strict: false });
  const view = await runs.get(runId, reader);
  if (view.status === 'queued' || view.status === 'running')
    throw new ExpectationError(`The run ${runId} has not ended yet. Record it once it has.`);
  const events = await collect(runs.read(runId, reader));
  const record = await app.get(BoundedStores, { strict: false }).runs.find(runId);
  if (!record) throw new ExpectationError(`The run ${runId} is not there any more.`);
  return readRecordedRun(
    redacted(
      toJsonObject({ ...askedBy(record), ...endOf(events), steps: stepsIn(events) }),
      redact,
    ),
  );
}

function askedBy({
  runId,
  request = {},
  actorId,
  tenant,
  loop,
}: RunRecord): Omit<RecordedRun, 'steps' | 'text' | 'prompt' | 'messages'> {
  return {
    version: 1,
    runId,
    ...questionIn(request),
    actor: { id: actorId },
    tenant,
    ...(loop !== undefined && { loop }),
  };
}

function endOf(events: readonly LoopEvent[]): Pick<RecordedRun, 'finishReason' | 'text'> {
  const end = eventsOf(events, 'run-end').at(-1);
  return end ? { finishReason: end.finishReason, text: end.text } : { text: '' };
}

function questionIn({ prompt, messages }: JsonObject): {
  readonly prompt?: JsonValue;
  readonly messages?: JsonValue;
} {
  return { ...(prompt !== undefined && { prompt }), ...(messages !== undefined && { messages }) };
}

/** The answer of a step while its events are read. */
interface StepReading {
  text: string;
  readonly calls: Pick<LoopEventOf<'tool-call'>, 'toolCallId' | 'tool' | 'args'>[];
}

/**
 * A step that was begun again replaces what was shown of it. Calls stand in the order of the model,
 * in which they need not have been told.
 */
function stepsIn(events: readonly LoopEvent[]): readonly RecordedStep[] {
  const records = new Map(
    eventsOf(events, 'tool-result').map(({ record }) => [record.toolCallId, record]),
  );
  const steps = new Map<number, StepReading>();
  for (const event of events) {
    if (event.type === 'step-start') steps.set(event.step, { text: '', calls: [] });
    else if (event.type === 'text-delta')
      take(steps, event.step, (step) => (step.text += event.text));
    else if (event.type === 'tool-call') take(steps, event.step, (step) => step.calls.push(event));
  }
  const indexOf = (id: string): number => records.get(id)?.index ?? Infinity;
  return [...steps.values()].map(({ text: words, calls }) => ({
    text: words,
    calls: calls
      .toSorted((one, other) => indexOf(one.toolCallId) - indexOf(other.toolCallId) || 0)
      .map(({ tool, args = {}, toolCallId }) =>
        callOf(records.get(toolCallId) ?? { id: tool, args, status: 'waiting' }),
      ),
  }));
}

function take(
  steps: ReadonlyMap<number, StepReading>,
  step: number,
  add: (reading: StepReading) => void,
): void {
  const reading = steps.get(step);
  if (reading) add(reading);
}

type CallRecord = Pick<
  ToolInvocationRecord,
  'id' | 'declaredId' | 'args' | 'status' | 'error' | 'decision'
>;

function callOf({ id, declaredId, args = {}, status, error, decision }: CallRecord): RecordedCall {
  return {
    tool: id,
    ...(declaredId !== undefined && { declaredId }),
    args,
    status,
    ...(error && { code: error.code }),
    ...(decision && { decision: decision.kind }),
  };
}

/**
 * Reads a recorded run from its JSON: a text, or what was parsed of it.
 *
 * @throws {ExpectationError} For what is no recorded run.
 */
export function readRecordedRun(json: JsonValue): RecordedRun {
  const value = typeof json === 'string' ? parseJson(json) : json;
  if (!isRecordedRun(value))
    throw new ExpectationError(
      'This is no recorded run of version 1. Record it again: toolloop runs test ID',
    );
  return value;
}

function isRecordedRun(value: unknown): value is RecordedRun {
  if (!isRecord(value) || value['version'] !== 1 || typeof value['tenant'] !== 'string')
    return false;
  const { steps } = value;
  return (
    Array.isArray(steps) &&
    steps.every(
      (step) => isRecord(step) && Array.isArray(step['calls']) && typeof step['text'] === 'string',
    )
  );
}

/**
 * Makes the answers of a recorded run the script of a model.
 *
 * @example
 * const model = new ScriptedModel(scriptOf(run), { perRun: true });
 */
export function scriptOf({ steps }: RecordedRun): readonly ScriptedTurn[] {
  return steps.map((step) =>
    step.calls.length === 0
      ? text(step.text)
      : textAndCalls(step.text, ...step.calls.map(({ tool, args }) => call(tool, args))),
  );
}

/**
 * Asserts that a run made the calls of a recorded one, with the same outcomes and decisions, and
 * ended as it did.
 *
 * @throws {ExpectationError} With the places that differ.
 *
 * @example
 * expectSameRun(await loop.run({ prompt, actor, tenant, model }), run);
 */
export function expectSameRun(
  result: Pick<LoopResult, 'toolCalls' | 'finishReason'>,
  run: RecordedRun,
): void {
  const expected = toJsonObject({
    finishReason: run.finishReason,
    calls: run.steps.flatMap(({ calls }) => calls),
  });
  const ordered = result.toolCalls.toSorted(
    (one, other) => one.step - other.step || one.index - other.index,
  );
  const calls = ordered.map(callOf);
  const differences = differencesOf(
    expected,
    toJsonObject({ finishReason: result.finishReason, calls }),
  );
  if (differences.length > 0)
    throw new ExpectationError(
      `The run is not as run ${run.runId} was:\n${differenceText(differences, ['recorded', 'now'])}`,
    );
}

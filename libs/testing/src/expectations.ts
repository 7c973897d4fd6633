import type {
  LoopEvent,
  LoopEventOf,
  LoopResult,
  Message,
  ToolInvocationRecord,
} from '@toolloop/core';
import type { AssistantMessage, ToolCall, ToolErrorCode, ToolMessage } from '@toolloop/protocol';
import { lastValueFrom, toArray, type Observable } from 'rxjs';
import type { AuditTrail } from '@toolloop/core/audit';
import type { AuditEntry } from '@toolloop/core/stores';
import { toJsonObject } from '@toolloop/core/internal';
import { isJsonObject, type JsonObject } from '@toolloop/protocol';
import { closestTo, differenceText, type JsonDifference } from './json-difference.js';
import { ExpectationError, toExcerpt } from './testing.error.js';

/**
 * Reads a run to its end, by subscribing or by iterating. Rejects when the source errors.
 *
 * @example
 * const events = await collect(loop.stream({ prompt: 'Where is order 7?' }));
 */
export async function collect(
  events: Observable<LoopEvent> | AsyncIterable<LoopEvent>,
): Promise<LoopEvent[]> {
  if (!(Symbol.asyncIterator in events)) return lastValueFrom(events.pipe(toArray()));
  const read: LoopEvent[] = [];
  for await (const event of events) read.push(event);
  return read;
}

/** Returns the events of one type, with that type's fields. */
export function eventsOf<Type extends LoopEvent['type']>(
  events: readonly LoopEvent[],
  type: Type,
): LoopEventOf<Type>[] {
  return events.filter((event): event is LoopEventOf<Type> => event.type === type);
}

/** The evidence for an expectation: the events of a run, or its result. */
export type RunEvidence = readonly LoopEvent[] | LoopResult;

/** Tells the two kinds of evidence apart. */
function isEvents(evidence: RunEvidence): evidence is readonly LoopEvent[] {
  return Array.isArray(evidence);
}

/** The records of the run's calls, in the order of their results. */
function recordsOf(evidence: RunEvidence): readonly ToolInvocationRecord[] {
  return isEvents(evidence)
    ? eventsOf(evidence, 'tool-result').map(({ record }) => record)
    : evidence.toolCalls;
}

/**
 * Asserts that at least one call of a tool was denied, with this code if one is given. `tool` is a
 * declared id or a rendered one.
 *
 * @throws ExpectationError if no call was, with the outcome of each call
 * @example
 * expectDenied(await collect(run), 'crm__refund', 'policy_denied');
 */
export function expectDenied(evidence: RunEvidence, tool: string, code?: ToolErrorCode): void {
  const all = recordsOf(evidence);
  const ofTool = all.filter((record) => record.declaredId === tool || record.id === tool);
  if (
    ofTool.some(
      ({ status, error }) => status === 'denied' && (code === undefined || error?.code === code),
    )
  )
    return;

  const wanted = code === undefined ? 'denied' : `denied with ${code}`;
  if (ofTool.length > 0)
    throw new ExpectationError(
      `No call of ${tool} was ${wanted}. Its calls: ${listOfRecords(ofTool)}`,
    );
  const others = all.length === 0 ? 'The run called no tool.' : `Called: ${listOfRecords(all)}`;
  throw new ExpectationError(`${tool} was not called, so no call of it was ${wanted}. ${others}`);
}

function listOfRecords(records: readonly ToolInvocationRecord[]): string {
  return records
    .map(
      ({ id, toolCallId, status, error }) =>
        `${id} ${toolCallId} ${[status, error?.code ?? []].flat().join(' with ')}`,
    )
    .join('; ');
}

/** The injection that is expected. */
export interface ExpectedInjection {
  /**
   * The class of the entity, or the name of the strategy. In a result, which holds no classes, an
   * entity tool's prefix stands for its class.
   */
  readonly provider: string;
  /**
   * The entity's real id. A result names it in the ids of its tools only, so a long id and a
   * grouped tool are found in events alone.
   */
  readonly instanceId?: string;
  /**
   * The rendered ids that must be among the injected ones; others may be there too. @default any
   */
  readonly tools?: readonly string[];
}

interface Injection {
  readonly provider: string;
  readonly instanceId?: string;
  readonly tools: readonly string[];
}

/**
 * Asserts that a run was given an entity's tools, or a strategy's.
 *
 * @throws ExpectationError if it was not, with the run's injections
 * @example
 * expectInjected(result, {
 *   provider: 'Customer',
 *   instanceId: 'c-7',
 *   tools: ['customer_c-7_getAverageSpend'],
 * });
 */
export function expectInjected(evidence: RunEvidence, expected: ExpectedInjection): void {
  const { provider, instanceId, tools = [] } = expected;
  const all = isEvents(evidence) ? fromEvents(evidence) : fromResult(evidence);
  const name = isEvents(evidence) ? provider : provider.toLowerCase();
  const matching = all.filter(
    (one) => one.provider === name && (instanceId === undefined || one.instanceId === instanceId),
  );
  if (matching.length === 0)
    throw new ExpectationError(
      `Nothing was injected for ${titleOf(expected)}. ${listOfInjections(all)}`,
    );

  const injected = new Set(matching.flatMap((one) => one.tools));
  const missing = tools.filter((id) => !injected.has(id));
  if (missing.length > 0)
    throw new ExpectationError(
      `${titleOf(expected)} was injected without ${missing.join(', ')}. ${listOfInjections(all)}`,
    );
}

function fromEvents(events: readonly LoopEvent[]): readonly Injection[] {
  return eventsOf(events, 'tools-injected');
}

/**
 * Reads injections from ids of the form `{prefix}_{instanceId}_{method}`; any other id comes from a
 * strategy, whose name a result does not hold.
 */
function fromResult({ injectedTools }: LoopResult): readonly Injection[] {
  return injectedTools.map(({ id, declaredId }) => {
    const [prefix = '', method] = declaredId.split('_*_');
    if (method === undefined) return { provider: 'a strategy', tools: [id] };
    const instanceId = id.slice(prefix.length + 1, -(method.length + 1));
    return {
      provider: prefix.toLowerCase(),
      instanceId: instanceId === '' ? undefined : instanceId,
      tools: [id],
    };
  });
}

function titleOf({ provider, instanceId }: ExpectedInjection): string {
  return instanceId === undefined ? provider : `${provider} ${instanceId}`;
}

function listOfInjections(all: readonly Injection[]): string {
  if (all.length === 0) return 'The run injected no tools.';
  return `Injected: ${all.map((one) => `${titleOf(one)} (${one.tools.join(', ')})`).join('; ')}`;
}

/**
 * The entry that an audit is to have: the fields that are given, those of objects within as well.
 */
export type ExpectedAudit = Partial<
  Pick<
    AuditEntry,
    'actorId' | 'runId' | 'toolCallId' | 'step' | 'declaredId' | 'instanceId' | 'isRehearsal'
  >
> & {
  readonly kind: AuditEntry['kind'];
} & JsonObject;

/** Reads the whole audit of a tenant, in order. */
export async function auditOf(
  trail: Pick<AuditTrail, 'entries'>,
  tenant: string,
): Promise<AuditEntry[]> {
  const read: AuditEntry[] = [];
  for await (const entry of trail.entries(tenant)) read.push(entry);
  return read;
}

/**
 * Asserts that an audit has an entry with these fields.
 *
 * @throws ExpectationError if it has none, with the places in which the closest entry differs
 * @example
 * const audit = await auditOf(app.get(AuditTrail), 'acme');
 * expectAudit(audit, { kind: 'denied', declaredId: 'crm__refund', code: 'policy_denied' });
 */
export function expectAudit(entries: readonly AuditEntry[], expected: ExpectedAudit): void {
  const closest = closestTo(expected, entries, (entry) => partOf(toJsonObject(entry), expected));
  if (closest?.differences.length === 0) return;
  const found = closest
    ? `The closest of its ${entries.length} entries, ${closest.candidate.sequence}, differs in:\n${differenceText(closest.differences.map(turned), ['expected', 'found'])}`
    : 'It is empty.';
  throw new ExpectationError(`The audit has no entry ${toExcerpt(expected)}. ${found}`);
}

/** Cuts a value to the fields that another one has. */
function partOf(whole: JsonObject, { ...wanted }: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(wanted).flatMap(([name, value]) => {
      const found = whole[name];
      if (found === undefined) return [];
      return [[name, isJsonObject(found) && isJsonObject(value) ? partOf(found, value) : found]];
    }),
  );
}

function turned({ path, expected, actual }: JsonDifference): JsonDifference {
  return { path, expected: actual, actual: expected };
}

/**
 * Asserts that these are the whole events of one run: one `run-end`, last; sequences from 1 without
 * a gap; one `runId`.
 *
 * @throws ExpectationError if they are not, with the first violation
 */
export function expectRunEndsOnce(events: readonly LoopEvent[]): void {
  const ends = eventsOf(events, 'run-end').length;
  if (ends !== 1)
    throw new ExpectationError(
      `The run has ${ends} run-end events instead of one. ${lastOf(events)}`,
    );
  if (events.at(-1)?.type !== 'run-end')
    throw new ExpectationError(`The run-end is not the last event. ${lastOf(events)}`);
  events.forEach(({ runId, sequence, type }, index) => {
    const at = `events[${index}] (${type})`;
    if (sequence !== index + 1)
      throw new ExpectationError(
        `${at} has the sequence ${sequence} instead of ${index + 1}. ${lastOf(events)}`,
      );
    const first = events[0]?.runId;
    if (runId !== first)
      throw new ExpectationError(
        `${at} belongs to the run ${runId}, and the events before it to ${first}.`,
      );
  });
}

/** Describes the last events, since a run may have thousands. */
function lastOf(events: readonly LoopEvent[]): string {
  const last = events.slice(-30).map(({ sequence, type }) => `${sequence} ${type}`);
  return `The last events: ${last.join(', ') || 'none'}.`;
}

/**
 * Asserts that a transcript can be sent to any provider: every call has exactly one result, among
 * the tool messages right after its assistant message; ids are unique; no result is an orphan; the
 * arguments of every call that succeeded parse. For a `LoopResult`, every recorded call must be in
 * the transcript too, except those of a step that waits for decisions.
 *
 * @throws ExpectationError if it cannot be sent, with the index and id of the first violation
 */
export function expectTranscriptValid(transcript: readonly Message[] | LoopResult): void {
  const messages = isMessages(transcript) ? transcript : transcript.messages;
  const seen = new Set<string>();
  messages.forEach((message, index) => {
    if (message.role === 'tool') return expectPartner(messages, message, index);
    if (message.role !== 'assistant') return;
    const results = resultsAfter(messages, index);
    for (const call of callsOf(message)) {
      const at = `messages[${index}]: the call ${nameOf(call)}`;
      if (seen.has(call.toolCallId))
        throw new ExpectationError(`${at} has the id of an earlier call.`);
      seen.add(call.toolCallId);
      expectResult(call, results, at);
    }
  });
  if (!isMessages(transcript)) expectRecorded(transcript, seen);
}

function isMessages(transcript: readonly Message[] | LoopResult): transcript is readonly Message[] {
  return Array.isArray(transcript);
}

function callsOf(message: AssistantMessage): readonly ToolCall[] {
  return message.toolCalls ?? [];
}

/** Returns the tool messages that directly follow a message. */
function resultsAfter(messages: readonly Message[], index: number): readonly ToolMessage[] {
  const row: ToolMessage[] = [];
  for (const message of messages.slice(index + 1)) {
    if (message.role !== 'tool') break;
    row.push(message);
  }
  return row;
}

function expectResult(call: ToolCall, results: readonly ToolMessage[], at: string): void {
  const own = results.filter(({ toolCallId }) => toolCallId === call.toolCallId);
  const [result] = own;
  if (result === undefined)
    throw new ExpectationError(
      `${at} has no result right after it. There: ${listOfResults(results)}`,
    );
  if (own.length > 1) throw new ExpectationError(`${at} has ${own.length} results.`);
  if (result.toolName !== call.name)
    throw new ExpectationError(`${at} has a result of another tool, ${result.toolName}.`);
  if (result.isError !== true && !isObjectText(call.arguments)) {
    throw new ExpectationError(
      `${at} succeeded with arguments that are not a JSON object: ${toExcerpt(call.arguments)}`,
    );
  }
}

/** Asserts that the call of a tool message is in the assistant message before it. */
function expectPartner(
  messages: readonly Message[],
  { toolCallId, toolName }: ToolMessage,
  index: number,
): void {
  const asker = messages.slice(0, index).findLast(({ role }) => role !== 'tool');
  const asked = asker?.role === 'assistant' ? callsOf(asker) : [];
  if (asked.some((call) => call.toolCallId === toolCallId)) return;
  const there = asked.length === 0 ? 'no calls' : asked.map(nameOf).join(', ');
  throw new ExpectationError(
    `messages[${index}]: the result ${toolCallId} (${toolName}) is an orphan. The message before it has ${there}.`,
  );
}

function expectRecorded({ toolCalls }: LoopResult, seen: ReadonlySet<string>): void {
  const waitingStep = toolCalls.find(({ status }) => status === 'waiting')?.step;
  toolCalls.forEach(({ toolCallId, id, step }, index) => {
    if (step === waitingStep) return;
    if (!seen.has(toolCallId))
      throw new ExpectationError(
        `toolCalls[${index}]: the call ${toolCallId} (${id}) is not in the transcript.`,
      );
  });
}

/** Tells whether arguments are a JSON object; an empty text and `null` count as `{}`. */
function isObjectText(json: string): boolean {
  try {
    const value: unknown = json.trim() === '' ? {} : JSON.parse(json);
    return typeof value === 'object' && !Array.isArray(value);
  } catch {
    return false;
  }
}

function nameOf({ toolCallId, name }: ToolCall): string {
  return `${toolCallId} (${name})`;
}

function listOfResults(results: readonly ToolMessage[]): string {
  return (
    results.map(({ toolCallId, toolName }) => `${toolCallId} (${toolName})`).join(', ') ||
    'no result'
  );
}

import { ReadableStream } from 'node:stream/web';
import { type JsonObject, type JsonValue, LanguageModel, type Message, tool, type ToolCallContext, ToolError } from '@toolloop/core';
import type { ModelEvent, ModelRequest } from '@toolloop/protocol';
import type { JSONSchema7, JSONSchema7Definition } from 'json-schema';
import type { AttackedTools } from './attack.application.js';
import type { RawTool } from './pack-tools.js';
import type { RecordedCall, RecordedTool } from './recorded-data.js';

const PREFIX = 'recorded__';

/** A call that an attacker wants. */
export interface AttackingCall extends RecordedCall {
  /** What leaves with it: a value of a private result, or the user's words. */
  readonly carries?: 'result' | 'prompt';
}

/** The attacker of a replayed run. */
export interface ReplayedAttack {
  /** The pieces of the attacker's text as they stand in results: a model that is shown one of them obeys. */
  readonly pieces: readonly string[];
  readonly calls: readonly AttackingCall[];
}

interface Wanted {
  readonly call: AttackingCall;
  readonly isAttack: boolean;
}

/** Plays the calls of one recorded run in their order, whatever becomes of them, and the attacker's as soon as a result shows the model a piece of the attack. It is the worst model there is. */
export class ReplayedModel extends LanguageModel {
  readonly provider = 'replayed';
  readonly modelId = 'replayed';
  private readonly madeCalls = new Map<string, Wanted>();
  private left: readonly Wanted[];
  private obeyed = false;

  constructor(
    calls: readonly RecordedCall[],
    private readonly attack?: ReplayedAttack,
  ) {
    super();
    this.left = calls.map((call) => ({ call, isAttack: false }));
  }

  /** The recorded call that was made under this id. */
  callOf(toolCallId: string): RecordedCall | undefined {
    return this.madeCalls.get(toolCallId)?.call;
  }

  /** The same, where the attacker wanted the call. */
  attackOf(toolCallId: string): AttackingCall | undefined {
    const made = this.madeCalls.get(toolCallId);
    return made?.isAttack ? made.call : undefined;
  }

  /** Whether a piece of the attack was shown to the model. */
  get wasAttacked(): boolean {
    return this.obeyed;
  }

  stream({ messages }: ModelRequest): AsyncIterable<ModelEvent> {
    this.obey(messages);
    const [next, ...left] = this.left;
    this.left = left;
    return ReadableStream.from(next ? this.eventsOf(next) : DONE);
  }

  private obey(messages: readonly Message[]): void {
    if (this.obeyed || !this.attack || !isShown(this.attack.pieces, messages)) return;
    this.obeyed = true;
    this.left = [...this.attack.calls.map((call) => ({ call, isAttack: true })), ...this.left];
  }

  private eventsOf(next: Wanted): readonly ModelEvent[] {
    const toolCallId = `call_${this.madeCalls.size}`;
    this.madeCalls.set(toolCallId, next);
    return [
      { type: 'tool-call', toolCallId, name: `${PREFIX}${next.call.name}`, arguments: JSON.stringify(next.call.args) },
      { type: 'finish', finishReason: 'tool_calls' },
    ];
  }
}

const DONE: readonly ModelEvent[] = [
  { type: 'text-delta', text: 'Done.' },
  { type: 'finish', finishReason: 'stop' },
];

/** As they stand in the JSON of a result. */
function isShown(pieces: readonly string[], messages: readonly Message[]): boolean {
  const written = pieces.map((piece) => JSON.stringify(piece).slice(1, -1));
  return messages.some(
    ({ role, content }) => role === 'tool' && typeof content === 'string' && written.some((piece) => content.includes(piece)),
  );
}

/** The tools of a recording as an application would declare them. Each answers what was recorded for the call, which the model in the run's context tells. */
export function replayedTools(name: string, tools: readonly RecordedTool[]): AttackedTools {
  const declared = tools.map(({ name: own, description, parameters, effect, labels, untrustedFields: fields }): RawTool =>
    tool<JsonObject>({
      id: `${PREFIX}${own}`,
      description,
      input: parameters,
      effect,
      labels,
      reveal: 'all',
      outputSchema: fieldLabels(fields),
      execute: (_, context) => recordedResult(context),
    }),
  );
  return { name, tools: declared };
}

/** The record of a customer, and all that is theirs, names its owner like this. */
const OWNER = 'user_id';

/**
 * The schema that says who wrote the fields of a result: the application, but for the pointers that name the fields of others. What stands in a customer's record is the customer's.
 */
function fieldLabels(untrusted: readonly string[]): JSONSchema7 {
  const ofOthers = { 'x-toolloop-origin': 'actor', 'x-toolloop-owned-by': OWNER };
  if (untrusted.includes('')) return labelled({}, ofOthers);
  const root = labelled({}, { 'x-toolloop-origin': 'application' });
  return untrusted.reduce((schema, pointer) => withLabel(schema, pointer.split('/').slice(1), ofOthers), root);
}

function withLabel(schema: JSONSchema7, [part, ...others]: readonly string[], label: Readonly<Record<string, string>>): JSONSchema7 {
  if (part === undefined) return labelled(schema, label);
  const { properties = {}, items, additionalProperties } = schema;
  if (part !== '*') return { ...schema, properties: { ...properties, [part]: withLabel(schemaOf(properties[part]), others, label) } };
  const one = typeof items === 'object' && !Array.isArray(items) ? items : schemaOf(additionalProperties);
  const each = withLabel(one, others, label);
  return { ...schema, items: each, additionalProperties: each };
}

function labelled(schema: JSONSchema7, label: Readonly<Record<string, string>>): JSONSchema7 {
  return { ...schema, ...label };
}

function schemaOf(given: JSONSchema7Definition | undefined): JSONSchema7 {
  return typeof given === 'object' ? given : {};
}

function recordedResult({ context, toolCallId }: ToolCallContext): JsonValue {
  const { model } = context;
  if (!(model instanceof ReplayedModel)) throw new TypeError('A replayed run needs its model in the context.');
  const { result = null, error } = model.callOf(toolCallId) ?? {};
  if (error) throw new ToolError(typeof result === 'string' ? result : JSON.stringify(result));
  return result;
}

import { ReadableStream } from 'node:stream/web';
import { type JsonObject, type JsonValue, LanguageModel, type Message } from '@toolloop/core';
import type { ModelEvent, ModelRequest } from '@toolloop/protocol';
import { resolveArguments } from './call-arguments.js';
import { fromResult } from './from-result.js';
import type { Injection, PlannedCall, UserTask } from './pack.js';

/** Who wanted a call. */
export type Wisher = 'user' | 'attacker';

interface Wish extends PlannedCall {
  readonly wisher: Wisher;
}

/** A call that was made of a wish. */
export interface MadeCall {
  readonly wisher: Wisher;
  readonly toolCallId: string;
  readonly tool: string;
  readonly args: JsonObject;
}

/**
 * The worst model there can be: it makes the calls of a user's task, and as soon as a result that
 * it is shown holds the injected text, the attacker's calls come next. It always obeys, so that
 * nothing but the application's policy decides what happens. One model serves one run.
 */
export class ObedientModel extends LanguageModel {
  readonly provider = 'obedient';
  readonly modelId = 'obedient';
  private readonly made: MadeCall[] = [];
  private readonly notMade: Wish[] = [];
  /** Names of results, by the ids of the calls they come of. */
  private readonly names = new Map<string, string>();
  private wishes: readonly Wish[];
  private obeyed = false;

  constructor(
    private readonly task: Pick<UserTask, 'calls'> & Partial<Pick<UserTask, 'prompt'>>,
    private readonly injection?: Injection,
  ) {
    super();
    this.wishes = wishesOf('user', task.calls);
  }

  get calls(): readonly MadeCall[] {
    return this.made;
  }

  /** Calls that could not be made, since a result they are about was refused. */
  get missed(): readonly Wish[] {
    return this.notMade;
  }

  /** Whether it was shown the injected text. */
  get wasAttacked(): boolean {
    return this.obeyed;
  }

  stream(request: ModelRequest): AsyncIterable<ModelEvent> {
    return ReadableStream.from(this.answerTo(request));
  }

  private answerTo({ messages }: ModelRequest): ModelEvent[] {
    this.obey(messages);
    const call = this.nextCall(resultsIn(messages, this.names));
    if (!call)
      return [
        { type: 'text-delta', text: 'Done.' },
        { type: 'finish', finishReason: 'stop' },
      ];
    return [
      {
        type: 'tool-call',
        toolCallId: call.toolCallId,
        name: call.tool,
        arguments: JSON.stringify(call.args),
      },
      { type: 'finish', finishReason: 'tool_calls' },
    ];
  }

  private obey(messages: readonly Message[]): void {
    if (!this.injection || this.obeyed || !isShown(this.injection.goal, messages)) return;
    this.obeyed = true;
    this.wishes = [...wishesOf('attacker', this.injection.calls), ...this.wishes];
  }

  private nextCall(results: ReadonlyMap<string, JsonValue>): MadeCall | undefined {
    for (;;) {
      const [wish, ...others] = this.wishes;
      if (!wish) return undefined;
      this.wishes = others;
      const args = resolveArguments(wish.args, this.known(wish.wisher, results));
      if (args) return this.make(wish, args);
      this.notMade.push(wish);
    }
  }

  /** A plan speaks of its own results, and of what the user asked. */
  private known(
    wisher: Wisher,
    results: ReadonlyMap<string, JsonValue>,
  ): ReadonlyMap<string, JsonValue> {
    const { prompt } = this.task;
    return new Map([
      ...resultsOf(wisher, results),
      ...(prompt === undefined ? [] : [['prompt', prompt] as const]),
    ]);
  }

  private make({ wisher, tool, as }: Wish, args: JsonObject): MadeCall {
    const call = { wisher, tool, args, toolCallId: `${wisher}_${this.made.length + 1}` };
    if (as !== undefined) this.names.set(call.toolCallId, `${wisher}:${as}`);
    this.made.push(call);
    return call;
  }
}

function wishesOf(wisher: Wisher, calls: readonly PlannedCall[]): Wish[] {
  return calls.map((call) => ({ ...call, wisher }));
}

function resultsOf(
  wisher: Wisher,
  results: ReadonlyMap<string, JsonValue>,
): ReadonlyMap<string, JsonValue> {
  const prefix = `${wisher}:`;
  return new Map(
    [...results].flatMap(([name, value]) =>
      name.startsWith(prefix) ? [[name.slice(prefix.length), value]] : [],
    ),
  );
}

function resultsIn(
  messages: readonly Message[],
  names: ReadonlyMap<string, string>,
): ReadonlyMap<string, JsonValue> {
  const results = new Map<string, JsonValue>();
  for (const message of messages) {
    if (message.role !== 'tool' || message.isError || typeof message.content !== 'string') continue;
    const name = names.get(message.toolCallId);
    if (name !== undefined) results.set(name, fromResult(message.content));
  }
  return results;
}

/** As it stands in the JSON of a result. */
function isShown(goal: string, messages: readonly Message[]): boolean {
  const written = JSON.stringify(goal).slice(1, -1);
  return messages.some(
    ({ role, content }) =>
      role === 'tool' && typeof content === 'string' && content.includes(written),
  );
}

import type { ToolCall } from '@toolloop/protocol';

/**
 * Gives the calls of one transcript their ids on the wire, each of which a request has once. The
 * provider's own id is kept where it is free: a transcript may hold the calls of many providers,
 * and some of them begin to count anew in every answer.
 */
export class CallNaming {
  private readonly used = new Set<string>();

  /** @param fit makes the ids that the server accepts */
  constructor(private readonly fit: IdFit) {}

  /** Returns the wire ids of one message's calls. */
  name(calls: readonly ToolCall[], fit = this.fit): WireIds {
    return new Map(calls.map((call) => [call.toolCallId, this.claim(call, fit)]));
  }

  private claim(call: ToolCall, fit: IdFit): string {
    for (const candidate of candidatesFor(call)) {
      const id = fit(candidate);
      if (this.used.has(id)) continue;
      this.used.add(id);
      return id;
    }
    return call.toolCallId;
  }
}

/** The wire ids of the calls of a message by their `toolCallId`. */
export type WireIds = ReadonlyMap<string, string>;

/** Makes an id that a server accepts of any other. The same id always gives the same one. */
export type IdFit = (id: string) => string;

/** The form of ids that count the calls of a conversation: `functions.look:0`. */
const COUNTED = /^(.+:)(\d{1,6})$/;

/**
 * Yields ids for a call, the best first, without an end: the provider's, one of the same form with
 * the next number, the transcript's own, and that with a number.
 */
function* candidatesFor({ toolCallId, providerCallId = toolCallId }: ToolCall): Generator<string> {
  yield providerCallId;
  const [, start, count] = COUNTED.exec(providerCallId) ?? [];
  if (start !== undefined) yield* counted(start, Number(count) + 1);
  yield toolCallId;
  for (let suffix = 2; ; suffix += 1) yield `${toolCallId}_${suffix}`;
}

function* counted(start: string, from: number): Generator<string> {
  for (let next = from; ; next += 1) yield `${start}${next}`;
}

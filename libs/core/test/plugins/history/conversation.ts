import type { LoopRequest, Message, ToolLoopService } from '@toolloop/core';
import { type HistoryCut, HistoryPolicy, TokenCounter } from '@toolloop/core/history';
import {
  ScriptedModel,
  call,
  calls,
  expectTranscriptValid,
  text,
  type RecordedRequest,
  type ScriptedTurn,
} from '@toolloop/testing';
import { expect } from '@jest/globals';
import { play, type PlayedRun } from '../../fixtures/played-run.js';
import { ask } from '../../fixtures/shop.module.js';

/** A call that no other is like. */
export const read = (key: string) => calls(call('probe__read', { key }));

/** As many calls, each in a step of its own, and then an answer. */
export function longLoop(steps: number, last = 'Done.'): readonly ScriptedTurn[] {
  return [...Array.from({ length: steps }, (_, index) => read(`k${index}`)), text(last)];
}

/** One run, by a model of its own; limits are out of the way. */
export async function playWith(
  loop: ToolLoopService,
  script: readonly ScriptedTurn[],
  request: Partial<LoopRequest> = {},
): Promise<PlayedRun & { readonly requests: readonly RecordedRequest[] }> {
  const model = new ScriptedModel(script);
  const played = await play(
    loop,
    ask({ model, limits: { steps: 500, callsPerTool: 500 }, ...request }),
  );
  model.assertComplete();
  for (const sent of model.requests) expectSendable(sent.messages);
  return { ...played, requests: model.requests };
}

/** What providers insist on. */
function expectSendable(messages: readonly Message[]): void {
  expect(messages[0]?.role).toBe('user');
  expectTranscriptValid(messages);
}

/** A cut decided by a function of the transcript. */
export class Cutting extends HistoryPolicy {
  constructor(private readonly decide: (messages: readonly Message[]) => HistoryCut | undefined) {
    super();
  }

  override cut({ messages }: { readonly messages: readonly Message[] }): HistoryCut | undefined {
    return this.decide(messages);
  }
}

/** A token a character. */
export class CharacterCounter extends TokenCounter {
  readonly counted: string[] = [];

  override count(words: string): number {
    this.counted.push(words);
    return words.length;
  }
}

/**
 * How many messages each request had in common with the one before it, as the very same objects
 * from the first on.
 */
export function sharedPrefixes(requests: readonly RecordedRequest[]): readonly number[] {
  return requests.slice(1).map(({ originalMessages }, index) => {
    const before = requests[index]?.originalMessages ?? [];
    const changed = originalMessages.findIndex((message, position) => message !== before[position]);
    return changed < 0 ? originalMessages.length : changed;
  });
}

/** What messages say; parts as JSON. */
export function textsOf(messages: readonly Message[] = []): readonly string[] {
  return messages.map(({ content }) =>
    typeof content === 'string' ? content : JSON.stringify(content),
  );
}

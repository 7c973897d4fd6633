import { describe, expect, it } from '@jest/globals';
import { type JsonObject, type Policy, tool, ToolLoopService } from '@toolloop/core';
import type { CallOutcome, OpenedCall, ResultChange } from '@toolloop/core/plugin';
import type { ModelRequest } from '@toolloop/protocol';
import { call, calls, ScriptedModel, type ScriptedTurn, text } from '@toolloop/testing';
import { having } from '../fixtures/plugins.js';
import { play, resultsIn } from '../fixtures/played-run.js';
import { ask, openModule } from '../fixtures/shop.module.js';

const CARD = '4111111111111111';
const policy: Policy = {
  version: 'v1',
  allow: ['*'],
  flow: 'values',
};

const sent: JsonObject[] = [];

const TOOLS = [
  tool({
    id: 'mail__read',
    description: 'Reads a mail.',
    effect: 'read_only',
    reveal: 'all',
    input: { type: 'object', properties: {} },
    execute: () => ({ from: 'eve', body: `His card is "${CARD}".` }),
  }),
  tool<JsonObject>({
    id: 'notes__file',
    description: 'Files a note.',
    effect: 'state_change',
    labels: { decisive: [], egress: false },
    input: { type: 'object', properties: { text: { type: 'string' } } },
    reveal: [],
    execute: (input) => void sent.push(input),
  }),
];

const referencesIn = ({ messages }: ModelRequest): readonly string[] =>
  messages.flatMap(({ role, content }) =>
    role === 'tool' && typeof content === 'string' ? (content.match(/⟦[^⟧]*⟧/g) ?? []) : [],
  );

/** Files the last text that the model was told of. */
const filesIt: ScriptedTurn = (request) =>
  calls(call('notes__file', { text: referencesIn(request).at(-1) ?? 'none' }));

const seen: string[] = [];

function mask(_call: OpenedCall, { content }: CallOutcome): ResultChange | undefined {
  if (typeof content !== 'string') return undefined;
  seen.push(content);
  return content.includes(CARD) ? { content: content.replaceAll(CARD, '****') } : undefined;
}

describe('a text that is hidden from the model, and that a plugin masks', () => {
  it('is masked in the call that takes it', async () => {
    const model = new ScriptedModel([calls(call('mail__read', {})), filesIt, text('Done.')]);
    const module = await openModule(model, {
      policy,
      tools: TOOLS,
      providers: [having('acme.mask', { result: mask })],
    });
    const { result } = await play(module.get(ToolLoopService), ask());
    expect(JSON.parse(seen[0] ?? '')).toEqual({ from: 'eve', body: `His card is "${CARD}".` });
    expect(resultsIn(result.messages)[0]).toMatch(/^⟦v-\w+:text⟧$/);
    expect(JSON.stringify([result.messages, sent])).not.toContain(CARD);
    expect(JSON.stringify(sent)).toContain('****');
  });
});

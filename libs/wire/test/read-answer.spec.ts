import { describe, expect, it } from '@jest/globals';
import type { ModelEvent } from '@toolloop/core';
import { fencesOf, importFence } from '../../../test/docs/fences.js';

describe('the README', () => {
  it('shows a wire that works', async () => {
    const { events } = await importFence(fencesOf('libs/wire/README.md', 'ts')[0] ?? '');
    const seen: ModelEvent[] = [];
    for await (const event of events as AsyncIterable<ModelEvent>) seen.push(event);
    expect(seen).toEqual([
      { type: 'text-delta', text: 'Hi' },
      { type: 'finish', reason: 'stop' },
    ]);
  });
});

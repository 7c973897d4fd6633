import { describe, expect, it } from '@jest/globals';
import type { WaitingRequest } from '@toolloop/client';
import type { LoopEvent } from '@toolloop/protocol';
import { EMPTY_RUN, withEvent } from '@toolloop/react';
import { nameOf, summaryOf } from '../page/parts/names.js';
import { sentenceOf } from '../page/parts/request-words.js';
import { valueText } from '../page/parts/value-text.js';
import { pathOf } from '../page/runs/value-path.js';
import { hrefOf, routeIn } from '../page/shell/route.js';
import { Words } from '../page/words/words.js';

const HALF = '\ud800';
/** Turns around what follows it: the text is read as "to 12 EUR". */
const TURNED = 'to \u202eRUE 21';
const SEEN = String.raw`to \u{202e}RUE 21`;

describe('an address of the console', () => {
  it('holds any text that a tool returns, half a character included, and is read back', () => {
    for (const text of ['o-7', 'a/b#?%', '<b>', 'ü 🙂', ''])
      expect(routeIn(hrefOf('runs', 'r-1', 'path', text)).path).toEqual([
        'r-1',
        'path',
        ...(text === '' ? [] : [text]),
      ]);
    expect(routeIn(hrefOf('runs', `half ${HALF}`)).path).toEqual(['half \ufffd']);
  });

  it.each(['#/runs/%', '#/runs/%E0%A4%A', '#/%ff'])(
    'is read where it was cut when it was copied: %s',
    (hash) => {
      expect(routeIn(hash).section).toBe(hash.split('/')[1]);
    },
  );

  it('leads to the way of a value that holds half a character', () => {
    const at = { runId: 'r', timestamp: '2026-01-01T00:00:00.000Z', step: 1 };
    const said: LoopEvent = { ...at, type: 'text-delta', sequence: 1, text: `It is half ${HALF}.` };
    const [, , value = ''] = routeIn(hrefOf('runs', 'r', 'path', `half ${HALF}`)).path;
    expect(pathOf(value, withEvent(EMPTY_RUN, said)).said).toMatchObject([
      { text: `It is half ${HALF}.` },
    ]);
  });
});

describe('a text by which people decide', () => {
  const words = new Words('en');

  it('shows the characters in it that are not seen and turn around what follows them', () => {
    expect(valueText(TURNED, words)).toBe(SEEN);
    expect(valueText({ [TURNED]: [TURNED] }, words)).toBe(
      JSON.stringify({ [TURNED]: [TURNED] }).replaceAll('\u202e', String.raw`\u{202e}`),
    );
    expect(summaryOf({ [TURNED]: TURNED })).toBe(`${SEEN}: ${SEEN}`);
    expect(nameOf(`pay__${TURNED}`)).toBe(`To ${SEEN.slice(3).toLowerCase()}`);
  });

  it('shows them in the sentence of a request, too', () => {
    const preview = {
      toolCallId: 'c',
      runId: 'r',
      preview: { sentence: TURNED },
      tool: 'pay__out',
    };
    const asked = [
      { kind: 'approval', id: 'a', request: preview },
      { kind: 'question', id: 'q', request: { question: TURNED } },
    ] as unknown as readonly WaitingRequest[];
    for (const request of asked) expect(sentenceOf(request, words)).toBe(SEEN);
  });

  it('has no half of a character where it is cut', () => {
    expect(summaryOf({ name: `${'x'.repeat(47)}🙂 and more` })).toBe(`name: ${'x'.repeat(47)}…`);
  });
});

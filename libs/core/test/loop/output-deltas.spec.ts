import { describe, expect, it } from '@jest/globals';
import { isJsonList, isJsonObject, type JsonValue } from '@toolloop/protocol';
import {
  call,
  calls,
  events as exactly,
  eventsOf,
  ScriptedModel,
  type ScriptedTurn,
} from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { IsOptional, IsString } from 'class-validator';
import * as fc from 'fast-check';
import { play } from '../fixtures/played-run.js';
import { ask, openShop } from '../fixtures/shop.module.js';

class Note {
  @IsString() title!: string;
  @IsOptional() @IsString({ each: true }) lines?: string[];
}

class Sealed {
  @IsString() title!: string;
  @IsString() @Expose({ groups: ['model'] }) code!: string;
}

/** An answer that comes in pieces of this length. */
function written(words: string, most = 7): ScriptedTurn {
  const pieces = words.match(new RegExp(`[^]{1,${most}}`, 'gu')) ?? [];
  const deltas = pieces.map((piece) => ({ type: 'text-delta', text: piece }) as const);
  return exactly([
    ...deltas,
    { type: 'usage', usage: { inputTokens: 1, outputTokens: 1 } },
    { type: 'finish', finishReason: 'stop' },
  ]);
}

async function deltasOf(
  script: readonly ScriptedTurn[],
  output: typeof Note | typeof Sealed | 'none' = Note,
) {
  const { events, result } = await play(
    await openShop(new ScriptedModel(script)),
    ask({ ...(output !== 'none' && { output }) }),
  );
  return { deltas: eventsOf(events, 'output-delta'), events, result };
}

/** Tells whether a value is another one, or grew out of it. */
function grewFrom(before: JsonValue | undefined, after: JsonValue | undefined): boolean {
  if (before === undefined || before === after) return true;
  if (typeof before === 'string') return typeof after === 'string' && after.startsWith(before);
  if (isJsonList(before))
    return isJsonList(after) && before.every((item, index) => grewFrom(item, after[index]));
  if (!isJsonObject(before) || !isJsonObject(after)) return false;
  return Object.keys(before).every((key) => grewFrom(before[key], after[key]));
}

const long = {
  title: 'A title that is long enough to be shown in parts',
  lines: ['one line', 'another line', 'and the last line of them'],
};

describe('a structured answer while the model writes it', () => {
  it('is shown as an object that only grows, and is whole before the run ends', async () => {
    const { deltas, events, result } = await deltasOf([written(JSON.stringify(long))]);
    const shown = deltas.map(({ output }) => output);
    expect(shown.length).toBeGreaterThan(3);
    for (const [index, output] of shown.entries())
      expect([output, grewFrom(shown[index - 1], output)]).toEqual([output, true]);
    expect(shown[0]).toEqual({ title: expect.stringMatching(/^A title/) });
    expect(shown.at(-1)).toEqual(long);
    expect(events.findIndex(({ type }) => type === 'output-delta')).toBeGreaterThan(
      events.findIndex(({ type }) => type === 'text-delta'),
    );
    expect(result.output).toBeInstanceOf(Note);
  });

  it('equals what JSON.parse reads, grows at every step and costs at most nine times its size, whatever it is and however it is cut', async () => {
    const answer = fc.record({
      title: fc.string({ unit: 'grapheme' }),
      lines: fc.array(fc.string({ maxLength: 200 }), { maxLength: 30 }),
    });
    await fc.assert(
      fc.asyncProperty(
        answer,
        fc.integer({ min: 1, max: 300 }),
        fc.boolean(),
        async (note, most, isFenced) => {
          const json = JSON.stringify(note, null, most % 3);
          const { deltas } = await deltasOf([
            written(isFenced ? `\`\`\`json\n${json}\n\`\`\`` : json, most),
          ]);
          const shown = deltas.map(({ output }) => output);
          expect(shown.at(-1)).toEqual(note);
          expect(shown.every((output, index) => grewFrom(shown[index - 1], output))).toBe(true);
          expect(JSON.stringify(shown).length).toBeLessThan(9 * json.length + 100);
        },
      ),
      { numRuns: 60 },
    );
  });

  it('begins anew in the next step, where the answer did not fit', async () => {
    const wrong = { title: 7, lines: ['This is not the title that was asked for'] };
    const { deltas, result } = await deltasOf([
      written(JSON.stringify(wrong)),
      written(JSON.stringify(long)),
    ]);
    expect(deltas.findLast(({ step }) => step === 1)?.output).toEqual(wrong);
    expect(deltas.find(({ step }) => step === 2)?.output).not.toHaveProperty('lines');
    expect(result.output).toEqual(long);
  });

  it.each([
    ['is no JSON', 'I am sorry, but I cannot say anything about that today.'],
    ['is a list', JSON.stringify([long, long])],
    ['has words before it', `Here it is, as you asked: ${JSON.stringify(long)}`],
  ])('is not shown where the text %s', async (_, words) => {
    expect(
      (await deltasOf([written(words), written(JSON.stringify(long))])).deltas.filter(
        ({ step }) => step === 1,
      ),
    ).toEqual([]);
  });

  it('is shown as far as it is JSON, where it then is none', async () => {
    const { deltas } = await deltasOf([
      written(`{"title":"A title that is long enough to be shown", oh no ${'x'.repeat(200)}`),
      written(JSON.stringify(long)),
    ]);
    expect(
      deltas.filter(({ step }) => step === 1).map(({ output }) => Object.keys(output)),
    ).toEqual(expect.arrayContaining([['title']]));
    expect(deltas.at(-1)?.output).toEqual(long);
  });

  it('takes the name of a prototype for a name like any other', async () => {
    const { deltas } = await deltasOf([
      written(`{"__proto__":{"polluted":"${'x'.repeat(80)}"},"title":"A title that is long"}`),
    ]);
    expect(Object.getPrototypeOf(deltas.at(-1)?.output)).toBe(Object.prototype);
    expect(Reflect.get({}, 'polluted')).toBeUndefined();
  });

  it('is not shown before its end where some of it is hidden', async () => {
    const { deltas, result } = await deltasOf(
      [written(JSON.stringify({ title: 'A title that is long enough', code: 's3cret'.repeat(9) }))],
      Sealed,
    );
    expect(deltas).toEqual([]);
    expect(result.output).toBeInstanceOf(Sealed);
  });

  it('is not looked for in a run without an output class, nor in an answer that calls tools', async () => {
    expect((await deltasOf([written(JSON.stringify(long))], 'none')).deltas).toEqual([]);
    const { deltas } = await deltasOf([
      calls(call('probe__read', { key: 'r' })),
      written(JSON.stringify(long)),
    ]);
    expect(new Set(deltas.map(({ step }) => step))).toEqual(new Set([2]));
  });
});

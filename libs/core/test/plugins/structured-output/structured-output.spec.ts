import { describe, expect, it } from '@jest/globals';
import { ConfigurationError, type LoopRequest, ToolCatalog, ToolLoopService } from '@toolloop/core';
import { ScriptedModel, call, calls, eventsOf, text, type ScriptedTurn } from '@toolloop/testing';
import { Transform, Type } from 'class-transformer';
import { IsInt, IsOptional, IsString, Max, ValidateBy, ValidateNested } from 'class-validator';
import { play, type PlayedRun } from '../../fixtures/played-run.js';
import { ask, openModule, openShop } from '../../fixtures/shop.module.js';

class Money {
  @IsInt() cents!: number;
}

/** Says what no schema can. */
const IsEven = () =>
  ValidateBy({
    name: 'isEven',
    validator: {
      validate: (value) => Number(value) % 2 === 0,
      defaultMessage: () => 'count must be even',
    },
  });

class Answer {
  @IsString() summary!: string;
  @IsInt() @Max(100) @IsEven() count!: number;
  @IsOptional() @ValidateNested() @Type(() => Money) price?: Money;

  describe(): string {
    return `${this.summary}: ${this.count}`;
  }
}

interface Played extends PlayedRun {
  readonly model: ScriptedModel;
}

async function playScript(
  script: readonly ScriptedTurn[],
  request: Partial<LoopRequest> = {},
): Promise<Played> {
  const model = new ScriptedModel(script);
  const played = await play(await openShop(model), ask({ output: Answer, ...request }));
  model.assertComplete();
  return { ...played, model };
}

const good = { summary: 'Two', count: 2 };
const json = JSON.stringify(good);

describe('a run that asks for an answer of a class', () => {
  it('gives an instance of it, and plain JSON in its run-end', async () => {
    const { events, result } = await playScript([
      text(JSON.stringify({ ...good, price: { cents: 5 } })),
    ]);
    expect(result.output).toBeInstanceOf(Answer);
    expect((result.output as Answer).describe()).toBe('Two: 2');
    expect((result.output as Answer).price).toBeInstanceOf(Money);
    expect(eventsOf(events, 'run-end')[0]?.output).toEqual({ ...good, price: { cents: 5 } });
    expect(JSON.parse(JSON.stringify(result))).toMatchObject({
      output: { ...good, price: { cents: 5 } },
    });
  });

  it('types the output', async () => {
    const { output } = await (
      await openShop(new ScriptedModel([text(json)]))
    ).run<Answer>({ ...ask(), output: Answer });
    const summary: string | undefined = output?.summary;
    expect(summary).toBe('Two');
  });

  it.each([
    ['in a fence', `\`\`\`json\n${json}\n\`\`\``],
    ['in a fence without a name', `\n\`\`\`\n${json}\n\`\`\`  \n`],
    ['with spaces round it', `  \n${json}\n `],
  ])('takes JSON %s', async (_, words) => {
    const { result } = await playScript([text(words)]);
    expect(result).toMatchObject({ finishReason: 'stop', output: good });
  });

  it('tells the model of the form, in every request', async () => {
    const { model } = await playScript([calls(call('probe__read', { key: 'a' })), text(json)]);
    for (const { answerFormat } of model.requests)
      expect(answerFormat).toMatchObject({
        name: 'Answer',
        schema: { type: 'object', required: expect.arrayContaining(['summary', 'count']) },
      });
  });

  it.each([
    ['no JSON', 'It is two.', 'must be one JSON object'],
    ['a list', '[1]', 'must be one JSON object'],
    ['JSON within words', `Here: ${json}`, 'must be one JSON object'],
    ['a value of another type', '{"summary":"Two","count":"2"}', '/count'],
    ['a value out of bounds', '{"summary":"Two","count":102}', '/count'],
    ['a missing field', '{"summary":"Two"}', 'count'],
    ['an unknown field', '{"summary":"Two","count":2,"more":1}', 'more'],
    [
      'a value that only class-validator refuses',
      '{"summary":"Two","count":3}',
      'count must be even',
    ],
    [
      'a nested value of another type',
      '{"summary":"Two","count":2,"price":{"cents":"5"}}',
      '/price/cents',
    ],
  ])('asks once more after %s, and says what is wrong', async (_, wrong, problem) => {
    const { result, model } = await playScript([text(wrong), text(json)]);
    expect(result).toMatchObject({ finishReason: 'stop', output: good, steps: 2 });
    expect(model.requests[1]?.messages.slice(-2)).toEqual([
      { role: 'assistant', content: wrong },
      // Our own words, but for what they repeat of the model's.
      {
        role: 'user',
        content: expect.stringContaining(problem),
        labels: { returns: 'untrusted', reads: 'public' },
      },
    ]);
  });

  it('ends with invalid_output after the second answer that does not fit', async () => {
    const { events, result } = await playScript([text('no'), text('still no')]);
    expect(result).toMatchObject({
      finishReason: 'error',
      error: { code: 'invalid_output' },
      text: 'still no',
      steps: 2,
    });
    expect(result.output).toBeUndefined();
    expect(eventsOf(events, 'run-end')[0]).not.toHaveProperty('output');
  });

  it('asks for one correction in the whole run', async () => {
    const { result } = await playScript([
      text('no'),
      calls(call('probe__read', { key: 'a' })),
      text('still no'),
    ]);
    expect(result).toMatchObject({ finishReason: 'error', steps: 3 });
  });

  it('has no output where a limit ended it', async () => {
    const { result } = await playScript([text('no')], { limits: { steps: 1 } });
    expect(result).toMatchObject({ finishReason: 'max_steps', text: 'no' });
    expect(result.output).toBeUndefined();
  });

  it('has no output where the answer was cut off, though it reads well', async () => {
    const { result } = await playScript([text(json, { reason: 'length' })]);
    expect(result.finishReason).toBe('length');
    expect(result.output).toBeUndefined();
  });

  it('may have a prompt field of any name: nothing is reserved in an answer', async () => {
    class Owner {
      @IsString() tenant!: string;
    }
    const { result } = await playScript([text('{"tenant":"acme"}')], { output: Owner });
    expect(result.output).toEqual({ tenant: 'acme' });
  });

  it('has a name for the form, whatever the class is called', async () => {
    const classes = [class extends Money {}, class Größe$1 extends Money {}];
    for (const output of classes) {
      const { model } = await playScript([text('{"cents":1}')], { output });
      expect(model.requests[0]?.answerFormat?.name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
    }
  });

  it('ends once all the same where the instance has no JSON', async () => {
    class Huge {
      @IsString() name!: string;
      readonly big = 10n;
    }
    const { events, result } = await playScript([text('{"name":"a"}')], { output: Huge });
    expect(result).toMatchObject({ finishReason: 'stop', output: { name: 'a', big: 10n } });
    expect(eventsOf(events, 'run-end')[0]?.output).toEqual({ name: 'a' });
    expect(JSON.parse(JSON.stringify(result))).toMatchObject({ output: { name: 'a' } });
  });

  it('has no output where the constructor hands out an instance of another class', async () => {
    class Other {
      @IsString() name!: string;
    }
    class Disguised {
      @IsString() name!: string;
      constructor() {
        return new Other();
      }
    }
    const { result } = await playScript([text('{"name":"a"}')], { output: Disguised });
    expect(result.finishReason).toBe('stop');
    expect(result.output).toBeUndefined();
  });

  it('ends with error where building the instance throws', async () => {
    class Broken {
      @IsString()
      @Transform(() => {
        throw new Error('secret');
      })
      name!: string;
    }
    const { events, result } = await playScript([text('{"name":"a"}')], { output: Broken });
    expect(result.finishReason).toBe('error');
    expect(JSON.stringify([events, result])).not.toContain('secret');
  });

  it('is refused at once where the class makes no schema', async () => {
    class Nothing {
      anything: unknown;
    }
    class Cyclic {
      @IsString({ each: true }) @ValidateNested() self!: Map<string, Cyclic>;
    }
    const loop = await openShop(new ScriptedModel([]));
    expect(() => loop.open(ask({ output: Cyclic }))).toThrow(ConfigurationError);
    expect(() => loop.open(ask({ output: Nothing }))).not.toThrow(TypeError);
  });

  it('compiles the class once for all runs', async () => {
    const model = new ScriptedModel([text(json), text(json)]);
    const module = await openModule(model);
    const loop = module.get(ToolLoopService);
    await play(loop, ask({ output: Answer }));
    await play(loop, ask({ output: Answer }));
    expect(model.requests[1]?.answerFormat).toBe(model.requests[0]?.answerFormat);
    expect(
      module
        .get(ToolCatalog)
        .list()
        .map(({ id }) => id),
    ).not.toContain('Answer');
  });
});

import { describe, expect, it } from '@jest/globals';
import { Injectable, type Type, UsePipes, ValidationPipe } from '@nestjs/common';
import {
  clientTool,
  LlmTool,
  type Tool,
  tool,
  ToolInput,
  ToolLoopModule,
  ToolParam,
  ToolProvider,
  ToolSource,
} from '@toolloop/core';
import { sourceTool } from '@toolloop/core/sources';
import { AuditStore } from '@toolloop/core/stores';
import { Type as Holds } from 'class-transformer';
import { IsEmail, IsString, Matches, MaxLength, ValidateIf, ValidateNested } from 'class-validator';
import { Bench, errorOf } from '../call/bench.js';
import { type Declared, findingsOf, start } from '../tools/application.js';

const fine = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;

/** A provider whose one tool takes a DTO. */
function takes(type: Type, own: object = {}): Type {
  @Injectable()
  @ToolProvider({ namespace: 'desk' })
  class DeskTools {
    @LlmTool({ ...fine, ...own }) find(@ToolInput(type) _input: object): string {
      return 'found';
    }
  }
  return DeskTools;
}

/**
 * Makes one call, and measures what the processor spends on it: others on the machine do not
 * lengthen it.
 */
async function measured(
  bench: Bench,
  args: object,
): Promise<{ readonly seconds: number; readonly refusal: string | undefined }> {
  const before = process.cpuUsage();
  const outcome = await bench.run().exec('desk__find', args);
  const { user, system } = process.cpuUsage(before);
  return {
    seconds: (user + system) / 1_000_000,
    refusal: outcome.record.error ? errorOf(outcome).code : undefined,
  };
}

const warningsOf = (bench: Bench): string[] =>
  bench.logger.warnings().map(({ message }) => String(message));

/** Almost matches, and backtracking tries 2^40 ways before it knows, which takes an hour. */
const AGES = `${'a'.repeat(40)}!`;
/** Almost matches `^a*a*a*a*$`, in some 10^11 ways, which takes minutes. */
const POLYNOMIAL = `${'a'.repeat(1_200)}!`;
/**
 * Far more than a check takes that does not backtrack, with whatever else the process does
 * meanwhile.
 */
const MOST_SECONDS = 2;

class Plain {
  @Matches(/^a*a*a*a*$/) value!: string;
}
class CaseInsensitive {
  @Matches(/^(a+)+$/i) value!: string;
}
class Unicode {
  @Matches(/^(a+)+$/u) value!: string;
}
class DotAll {
  @Matches(/^(a+.?)+b$/s) value!: string;
}
class MultiLine {
  @Matches(/^(a+)+$/m) value!: string;
}
class ByText {
  @Matches('^(a+)+$' as never, 'i') value!: string;
}
class InLists {
  @Matches(/^(a+)+$/i, { each: true }) value!: string[];
}
class BesideAnother {
  @Matches(/^(a+)+$/) @Matches(/^(a|aa)+$/i) value!: string;
}
class Inner {
  @Matches(/^(a+)+$/i) value!: string;
}
class Outer {
  @ValidateNested() @Holds(() => Inner) value!: Inner;
}
class Conditional {
  @ValidateIf(() => true) @Matches(/^(a+)+$/) value!: string;
}
class Email {
  @IsEmail() email = 'ada@example.com'; // which only class-validator can check
}
class BesideAnEmail extends Email {
  @Matches(/^(?:(a+)+|a+!)$/) value!: string;
}
class FlaggedBesideAnEmail extends Email {
  @Matches(/^(?:(a+)+|a+!)$/i) value!: string;
}
class ItemsBesideAnEmail extends Email {
  @Matches(/^(?:(a+)+|a+!)$/, { each: true }) value!: string[];
}
class GroupedBesideAnEmail extends Email {
  @Matches(/^(?:(a+)+|a+!)$/, { groups: ['strict'] }) value!: string;
}
class ConditionalBesideAnEmail extends Email {
  @ValidateIf(() => true) @Matches(/^(?:(a+)+|a+!)$/) value!: string;
}

describe('a pattern of a DTO that backtracking takes for ever with', () => {
  it.each<[string, Type, unknown]>([
    ['without a flag', Plain, POLYNOMIAL],
    ['with the flag i', CaseInsensitive, AGES],
    ['with the flag u', Unicode, AGES],
    ['with the flag s', DotAll, AGES],
    ['with the flag m', MultiLine, AGES],
    ['given as text', ByText, AGES],
    ['of each item', InLists, ['a', AGES]],
    ['beside another', BesideAnother, AGES],
    ['of a nested class', Outer, { value: AGES }],
    ['under a condition', Conditional, AGES],
  ])('does not block the process: %s', async (_, type, value) => {
    const bench = await Bench.start({ providers: [takes(type)] });
    expect(warningsOf(bench)).toEqual([]);
    const { seconds, refusal } = await measured(bench, { value });
    expect(refusal).toBe('invalid_args');
    expect(seconds).toBeLessThan(MOST_SECONDS);
  });

  // The pattern of the schema accepts these texts, and backtracking takes for ever to: that is why
  // class-validator keeps none of these expressions.
  it.each<[string, Type, unknown]>([
    ['without a flag', BesideAnEmail, AGES],
    ['with a flag', FlaggedBesideAnEmail, AGES],
    ['of each item', ItemsBesideAnEmail, [AGES]],
    ['of a group', GroupedBesideAnEmail, AGES],
    ['under a condition', ConditionalBesideAnEmail, AGES],
  ])(
    'does not block the process where class-validator takes the text: %s',
    async (_, type, value) => {
      const bench = await Bench.start({ providers: [takes(type)] });
      const { seconds, refusal } = await measured(bench, { value });
      expect(refusal).toBeUndefined();
      expect(seconds).toBeLessThan(MOST_SECONDS);
    },
  );

  it('does not block the process in a ValidationPipe of the application', async () => {
    @Injectable()
    @ToolProvider({ namespace: 'desk' })
    class DeskTools {
      @UsePipes(new ValidationPipe())
      @LlmTool(fine)
      find(@ToolInput() _input: BesideAnEmail): string {
        return 'found';
      }
    }
    const bench = await Bench.start({ providers: [DeskTools] });
    expect((await measured(bench, { value: AGES })).seconds).toBeLessThan(MOST_SECONDS);
  });

  it.each<[string, Type, unknown]>([
    ['with the flag i', CaseInsensitive, 'aAa'],
    ['with the flag u', Unicode, 'aa'],
    ['with the flag s', DotAll, 'a\nab'],
    ['with the flag m', MultiLine, 'b\r\naa'],
    ['given as text', ByText, 'AA'],
    ['of each item', InLists, ['A', 'aa']],
  ])('takes what it took before: %s', async (_, type, value) => {
    const bench = await Bench.start({ providers: [takes(type)] });
    expect((await measured(bench, { value })).refusal).toBeUndefined();
  });
});

describe('a pattern of a parameter or of a raw tool that backtracking takes for ever with', () => {
  it('does not block the process', async () => {
    @Injectable()
    @ToolProvider({ namespace: 'desk' })
    class DeskTools {
      @LlmTool(fine) find(
        @ToolParam('value', { description: 'x', type: 'string', pattern: '^a*a*a*a*$' })
        value: string,
      ): string {
        return value;
      }
    }
    const { seconds, refusal } = await measured(await Bench.start({ providers: [DeskTools] }), {
      value: POLYNOMIAL,
    });
    expect(refusal).toBe('invalid_args');
    expect(seconds).toBeLessThan(MOST_SECONDS);
    const input = {
      type: 'object',
      properties: { value: { type: 'string', pattern: 'a*a*a*b' } },
    } as const;
    const tools = [tool({ ...fine, id: 'desk__find', input, execute: () => 1 })];
    expect(
      (await measured(await Bench.start({ options: { tools } }), { value: 'a'.repeat(1_000) }))
        .seconds,
    ).toBeLessThan(MOST_SECONDS);
  });
});

const REASON = 'Codes of a few characters.';
const patterns = { engine: 'backtracking', reason: REASON } as const;

const LOOK = /^(?=a)(a+)+$/;
const told = (place: string, pattern: string): string =>
  `${place} has the pattern ${pattern}, which the linear engine cannot run, so it could block the process.`;
const WRITE_IT = 'Write it without look-around and back references';
const OR_BACKTRACK =
  "or bound the text by maxLength and let the tool backtrack: patterns: { engine: 'backtracking', reason }.";
const BOUND_IT = 'Bound the text: write @MaxLength(), or maxLength in the schema.';

/** A tool of every kind with one argument, whose pattern is given. */
const KINDS: readonly (readonly [
  kind: string,
  at: string,
  declare: (schema: { pattern: string; maxLength?: number }, own: object) => Declared,
])[] = [
  [
    'a parameter',
    'DeskTools.find: "/properties/value"',
    (schema, own) => {
      @Injectable()
      @ToolProvider({ namespace: 'desk' })
      class DeskTools {
        @LlmTool({ ...fine, ...own }) find(
          @ToolParam('value', { description: 'x', type: 'string', ...schema }) value: string,
        ): string {
          return value;
        }
      }
      return { providers: [DeskTools] };
    },
  ],
  [
    'a property of a DTO',
    'DeskTools.find: Input.value',
    ({ pattern, maxLength }, own) => {
      class Input {
        @Matches(new RegExp(pattern)) value!: string;
      }
      if (maxLength !== undefined) MaxLength(maxLength)(Input.prototype, 'value');
      return { providers: [takes(Input, own)] };
    },
  ],
  [
    'items of a DTO',
    'DeskTools.find: Input.value',
    ({ pattern, maxLength }, own) => {
      class Input {
        @Matches(new RegExp(pattern), { each: true }) value!: string[];
      }
      if (maxLength !== undefined) MaxLength(maxLength, { each: true })(Input.prototype, 'value');
      return { providers: [takes(Input, own)] };
    },
  ],
  [
    'a nested class',
    'DeskTools.find: Deep.value',
    ({ pattern, maxLength }, own) => {
      class Deep {
        @Matches(new RegExp(pattern)) value!: string;
      }
      class Input {
        @ValidateNested() @Holds(() => Deep) deep!: Deep;
      }
      if (maxLength !== undefined) MaxLength(maxLength)(Deep.prototype, 'value');
      return { providers: [takes(Input, own)] };
    },
  ],
  [
    'a group of validation',
    'DeskTools.find: Input.value',
    ({ pattern, maxLength }, own) => {
      class Input {
        @Matches(new RegExp(pattern), { groups: ['strict'] }) value!: string;
      }
      if (maxLength !== undefined) MaxLength(maxLength)(Input.prototype, 'value');
      return { providers: [takes(Input, own)] };
    },
  ],
  [
    'a raw tool',
    'tool raw: "/properties/value"',
    (schema, own) => {
      const input = {
        type: 'object',
        properties: { value: { type: 'string', ...schema } },
      } as const;
      return {
        options: { tools: [tool({ ...fine, ...own, id: 'raw', input, execute: () => 1 })] },
      };
    },
  ],
  [
    'a tool of the client, for its result',
    'client tool raw: "/properties/value"',
    (schema, own) => {
      const output = {
        type: 'object',
        properties: { value: { type: 'string', ...schema } },
      } as const;
      return { options: { tools: [clientTool({ ...fine, ...own, id: 'raw', output })] } };
    },
  ],
];

const saidOf = async (declared: Declared): Promise<readonly string[]> =>
  (await findingsOf(declared)).map(({ at, problem, remedy }) => `${at}: ${problem} ${remedy}`);

describe.each(KINDS)('a pattern that the linear engine cannot run, of %s', (_, at, declare) => {
  it('stops the start, and says tool, field, pattern and remedy', async () => {
    expect(await saidOf(declare({ pattern: LOOK.source }, {}))).toEqual([
      `${told(at, String(LOOK))} ${WRITE_IT}, ${OR_BACKTRACK}`,
    ]);
  });

  it('stops the start although its text is short, as long as the tool does not let it backtrack', async () => {
    expect(await saidOf(declare({ pattern: LOOK.source, maxLength: 20 }, {}))).toEqual([
      `${told(at, String(LOOK))} ${WRITE_IT}, ${OR_BACKTRACK}`,
    ]);
  });

  it('stops the start although the tool lets it backtrack, as long as its text has no bound', async () => {
    expect(await saidOf(declare({ pattern: LOOK.source }, { patterns }))).toEqual([
      `${told(at, String(LOOK))} ${BOUND_IT}`,
    ]);
  });

  it('starts with both, and the linear ones need neither', async () => {
    const allowed = declare({ pattern: LOOK.source, maxLength: 20 }, { patterns });
    for (const declared of [allowed, declare({ pattern: '^(a+)+$' }, {})])
      expect(await start(declared)).toBeDefined();
  });
});

describe('a tool that lets patterns backtrack', () => {
  class Short {
    @MaxLength(20) @Matches(/^(?=a)(a+)+$/i) value!: string;
  }

  it('applies them, to no text that is too long', async () => {
    const bench = await Bench.start({ providers: [takes(Short, { patterns })] });
    expect((await measured(bench, { value: 'aAa' })).refusal).toBeUndefined();
    expect((await measured(bench, { value: 'bAa' })).refusal).toBe('invalid_args');
    const { seconds, refusal } = await measured(bench, { value: AGES });
    expect(refusal).toBe('invalid_args');
    expect(seconds).toBeLessThan(MOST_SECONDS);
  });

  it('has the reason in the audit with each call', async () => {
    const bench = await Bench.start({
      providers: [takes(Short, { patterns })],
      options: { audit: { key: 'k'.repeat(32) } },
    });
    await bench.run().exec('desk__find', { value: 'a' });
    const entries = await bench.module.get(AuditStore).read('acme', { from: 1, limit: 20 });
    expect(entries).toMatchObject([
      { kind: 'opt-out', declaredId: 'desk__find', names: ['patterns'], reason: REASON },
      { kind: 'decision' },
      { kind: 'outcome' },
    ]);
  });

  it('holds its own examples and defaults against them', async () => {
    const input = {
      type: 'object',
      properties: {
        code: { type: 'string', pattern: '^(?!-)[a-z-]+$', maxLength: 9, default: '-a' },
      },
    } as const;
    expect(
      await saidOf({
        options: { tools: [tool({ ...fine, id: 'raw', patterns, input, execute: () => 1 })] },
      }),
    ).toEqual([
      expect.stringMatching(/contradicts itself .* default is "-a", which must match the pattern/),
    ]);
  });

  it.each([
    [
      'no reason',
      { engine: 'backtracking', reason: ' ' },
      /lets patterns backtrack, but gives no reason/,
    ],
    ['another engine', { engine: 'fast', reason: REASON }, /engine/],
    ['a bare word', 'backtracking', /patterns/],
  ])('does not start with %s', async (_, given, problem) => {
    expect(
      (await findingsOf({ providers: [takes(Plain, { patterns: given })] })).map(
        (one) => one.problem,
      ),
    ).toEqual([expect.stringMatching(problem)]);
  });
});

describe('a pattern beside which a schema has nothing', () => {
  it('stops the start under a condition, since no length bounds a text that only class-validator looks at', async () => {
    class Search {
      @ValidateIf(() => true) @MaxLength(20) @Matches(LOOK) code!: string;
    }
    expect(await saidOf({ providers: [takes(Search, { patterns })] })).toEqual([
      `${told('DeskTools.find: Search.code', String(LOOK))} ${BOUND_IT}`,
    ]);
  });

  it('stops the start with the remedy for its flags', async () => {
    class Search {
      @Matches(/^(?:Ä+)+$/i) word!: string;
      @Matches(/^(\w+) \1$/i) twice!: string;
    }
    expect(await saidOf({ providers: [takes(Search)] })).toEqual([
      `${told('DeskTools.find: Search.word', '/^(?:Ä+)+$/i')} Give it the flag u, ${OR_BACKTRACK}`,
      `${told('DeskTools.find: Search.twice', String.raw`/^(\w+) \1$/i`)} ${WRITE_IT}, ${OR_BACKTRACK}`,
    ]);
  });

  it('stops the start in the schema of a result, and in that of an approval', async () => {
    const outputSchema = {
      type: 'object',
      properties: { value: { type: 'string', pattern: LOOK.source } },
    } as const;
    const result = tool({ ...fine, id: 'raw', outputSchema, execute: () => ({ value: 'a' }) });
    expect(await saidOf({ options: { tools: [result] } })).toEqual([
      expect.stringMatching(
        /^tool raw: The output schema cannot be used: the linear engine cannot run its pattern \^\(\?=a\)/,
      ),
    ]);
    const rule = {
      tools: ['desk__find'],
      arguments: { properties: { value: { type: 'string', pattern: LOOK.source } } },
    } as const;
    expect(
      await saidOf({
        providers: [takes(Plain)],
        options: { policy: { allow: ['*'], requireApproval: [rule], flow: 'off' } },
      }),
    ).toEqual([
      expect.stringMatching(
        /This JSON Schema cannot be used: the linear engine cannot run its pattern/,
      ),
    ]);
  });

  it('stops the start in the class of a structured answer', async () => {
    class Answer {
      @Matches(LOOK) value!: string;
    }
    expect(
      await saidOf({
        imports: [ToolLoopModule.forFeature({ loops: { support: { output: Answer } } })],
      }),
    ).toEqual([expect.stringContaining(told('Answer: Answer.value', String(LOOK)))]);
  });
});

describe('a source that lets its own patterns backtrack', () => {
  it.each([true, false])(
    'has them not applied, and no reason of its own in the audit (trusted: %s)',
    async (trusted) => {
      const given = sourceTool({
        id: 'remote__run',
        origin: { source: 'remote', trusted },
        description: 'Runs.',
        effect: 'read_only',
        inputSchema: {
          type: 'object',
          properties: { value: { type: 'string', pattern: LOOK.source, maxLength: 10_000 } },
        },
        patterns,
        invoke: () => 'ran',
      });
      class Remote extends ToolSource {
        override readonly origin = { source: 'remote', trusted };
        override tools(): Promise<readonly Tool[]> {
          return Promise.resolve([given]);
        }
      }
      const source = { provide: Remote, useValue: new Remote() };
      const bench = await Bench.start({
        providers: [source],
        options: { audit: { key: 'k'.repeat(32) }, policy: { allow: ['remote__run'] } },
      });
      const before = process.cpuUsage();
      const { record } = await bench
        .run({ policies: [{ allow: ['remote__run'] }] })
        .exec('remote__run', { value: AGES });
      expect(record).toMatchObject({ status: 'succeeded' });
      expect(process.cpuUsage(before).user / 1_000_000).toBeLessThan(MOST_SECONDS);
      const entries = await bench.module.get(AuditStore).read('acme', { from: 1, limit: 20 });
      expect(entries.map(({ kind }) => kind)).toEqual(['decision', 'outcome']);
      expect(warningsOf(bench)).toContainEqual(
        expect.stringMatching(/Its pattern .* cannot be run in linear time, so it is not applied/),
      );
    },
  );
});

describe('a pattern that is none', () => {
  it('does not start the application, beside whatever else is wrong', async () => {
    class Search {
      @Matches('(' as never) code!: string;
      @IsString() @Matches('a' as never, 'zz') name!: string;
      other!: string;
    }
    expect(
      (await findingsOf({ providers: [takes(Search)] })).map(({ problem }) => problem),
    ).toEqual([
      expect.stringMatching(/^Search\.code has a pattern that is none: Invalid regular expression/),
      expect.stringMatching(/^Search\.name has a pattern that is none: Invalid flags/),
    ]);
  });
});

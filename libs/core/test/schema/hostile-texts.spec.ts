import { describe, expect, it } from '@jest/globals';
import { Injectable, type Type, UsePipes, ValidationPipe } from '@nestjs/common';
import { LlmTool, tool, ToolInput, ToolParam, ToolProvider } from '@toolloop/core';
import { Type as Holds } from 'class-transformer';
import { IsEmail, IsString, Matches, MaxLength, ValidateIf, ValidateNested } from 'class-validator';
import { Bench, errorOf } from '../execution/bench.js';
import { findingsOf } from '../discovery/application.js';

const fine = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;

/** A provider whose one tool takes a DTO. */
function takes(type: Type): Type {
  @Injectable()
  @ToolProvider({ namespace: 'desk' })
  class DeskTools {
    @LlmTool(fine) find(@ToolInput(type) _input: object): string {
      return 'found';
    }
  }
  return DeskTools;
}

/** Makes one call, and measures what the processor spends on it: others on the machine do not lengthen it. */
async function measured(bench: Bench, args: object): Promise<{ readonly seconds: number; readonly refusal: string | undefined }> {
  const before = process.cpuUsage();
  const outcome = await bench.run().exec('desk__find', args);
  const { user, system } = process.cpuUsage(before);
  return { seconds: (user + system) / 1_000_000, refusal: outcome.record.error ? errorOf(outcome).code : undefined };
}

const warningsOf = (bench: Bench): string[] => bench.logger.warnings().map(({ message }) => String(message));

/** Almost matches, and backtracking tries 2^40 ways before it knows, which takes an hour. */
const AGES = `${'a'.repeat(40)}!`;
/** Almost matches `^a*a*a*a*$`, in some 10^11 ways, which takes minutes. */
const POLYNOMIAL = `${'a'.repeat(1_200)}!`;
/** Far more than a check takes that does not backtrack, with whatever else the process does meanwhile. */
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
class BesideAnEmail {
  @Matches(/^(?:(a+)+|a+!)$/) value!: string;
  @IsEmail() email = 'ada@example.com';
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

  it('does not block the process where class-validator takes the text', async () => {
    const bench = await Bench.start({ providers: [takes(BesideAnEmail)] });
    const { seconds, refusal } = await measured(bench, { value: AGES });
    expect(refusal).toBeUndefined();
    expect(seconds).toBeLessThan(MOST_SECONDS);
  });

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

  it('is not run on a text that is too long, where nothing can bound it', async () => {
    class Short {
      @MaxLength(20) @Matches(/^(?=a)(a+)+$/i) value!: string;
    }
    const bench = await Bench.start({ providers: [takes(Short)] });
    const { seconds, refusal } = await measured(bench, { value: AGES });
    expect(refusal).toBe('invalid_args');
    expect(seconds).toBeLessThan(MOST_SECONDS);
  });
});

describe('a pattern of a parameter or of a raw tool that backtracking takes for ever with', () => {
  it('does not block the process', async () => {
    @Injectable()
    @ToolProvider({ namespace: 'desk' })
    class DeskTools {
      @LlmTool(fine) find(@ToolParam('value', { description: 'x', type: 'string', pattern: '^a*a*a*a*$' }) value: string): string {
        return value;
      }
    }
    const { seconds, refusal } = await measured(await Bench.start({ providers: [DeskTools] }), { value: POLYNOMIAL });
    expect(refusal).toBe('invalid_args');
    expect(seconds).toBeLessThan(MOST_SECONDS);
    const input = { type: 'object', properties: { value: { type: 'string', pattern: 'a*a*a*b' } } } as const;
    const tools = [tool({ ...fine, id: 'desk__find', input, execute: () => 1 })];
    expect((await measured(await Bench.start({ options: { tools } }), { value: 'a'.repeat(1_000) })).seconds).toBeLessThan(MOST_SECONDS);
  });
});

const told = (place: string, pattern: string): string =>
  `${place} has the pattern ${pattern}, which can block the process: no engine without backtracking runs it.`;

describe('a pattern that nothing bounds', () => {
  it('is told when the application starts: class, property, and what to write instead', async () => {
    class Deep {
      @Matches(/^(?:Ä+)+$/i) word!: string;
    }
    class Search {
      @Matches(/^(?!.*--)[a-z]+(?:-[a-z]+)*$/) code!: string;
      @Matches(/^(\w+) \1$/i) twice!: string;
      @ValidateNested() @Holds(() => Deep) deep!: Deep;
    }
    const bench = await Bench.start({ providers: [takes(Search)] });
    expect(warningsOf(bench)).toEqual([
      `DeskTools.find: ${told('Search.code', '/^(?!.*--)[a-z]+(?:-[a-z]+)*$/')} Write it without look-around and back references.`,
      expect.stringMatching(
        /^DeskTools\.find: Search\.twice .*Write it without look-around and back references, or bound the text: @MaxLength\(\d+\)\.$/,
      ),
      `DeskTools.find: ${told('Deep.word', '/^(?:Ä+)+$/i')} Give it the flag u.`,
    ]);
  });

  it('is told of a parameter and of a raw tool', async () => {
    @Injectable()
    @ToolProvider({ namespace: 'desk' })
    class DeskTools {
      @LlmTool(fine) find(@ToolParam('value', { description: 'x', type: 'string', pattern: '^(?=a)(a+)+$' }) value: string): string {
        return value;
      }
    }
    const input = { type: 'object', properties: { tags: { type: 'array', items: { type: 'string', pattern: '^(?=a)(a+)+$' } } } } as const;
    const bench = await Bench.start({
      providers: [DeskTools],
      options: { tools: [tool({ ...fine, id: 'raw', input, execute: () => 1 })] },
    });
    expect(warningsOf(bench)).toEqual([
      `DeskTools.find: ${told('"/properties/value"', '/^(?=a)(a+)+$/')} Write it without look-around and back references.`,
      `tool raw: ${told('"/properties/tags/items"', '/^(?=a)(a+)+$/')} Write it without look-around and back references.`,
    ]);
  });

  it.each([
    [/^(?=.*[A-Z])(?=.*\d)(?=.*[^\w\s]).{8,}$/, 'each part of which is tried once'],
    [/^(?!-)[a-z-]+$/i, 'which backtracks through one repetition'],
    [/^[A-Z]{2}\d{4,12}$/, 'which is short'],
    [/^[\w.+-]+@[\w-]+\.[\w.-]+$/i, 'which runs in linear time'],
  ])('is not told of %s, %s', async (pattern) => {
    class Search {
      @Matches(pattern) code!: string;
    }
    expect(warningsOf(await Bench.start({ providers: [takes(Search)] }))).toEqual([]);
  });

  it('is not told where its text is short enough', async () => {
    class Search {
      @MaxLength(25) @Matches(/^(\w+)-(\w+)-\1$/) code!: string;
    }
    expect(warningsOf(await Bench.start({ providers: [takes(Search)] }))).toEqual([]);
  });
});

describe('a pattern that is none', () => {
  it('does not start the application, beside whatever else is wrong', async () => {
    class Search {
      @Matches('(' as never) code!: string;
      @IsString() @Matches('a' as never, 'zz') name!: string;
      other!: string;
    }
    expect((await findingsOf({ providers: [takes(Search)] })).map(({ problem }) => problem)).toEqual([
      expect.stringMatching(/^Search\.code has a pattern that is none: Invalid regular expression/),
      expect.stringMatching(/^Search\.name has a pattern that is none: Invalid flags/),
    ]);
  });
});

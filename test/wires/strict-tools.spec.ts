import { afterEach, describe, expect, it } from '@jest/globals';
import { Injectable, type Type } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  LlmTool,
  policies,
  ToolInput,
  ToolField,
  ToolLoopModule,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import { openai } from '@toolloop/openai';
import { Type as Nested } from 'class-transformer';
import {
  ArrayMaxSize,
  IsArray,
  IsBoolean,
  IsDateString,
  IsEmail,
  IsIn,
  IsInt,
  IsNumber,
  IsOptional,
  IsString,
  IsUrl,
  IsUUID,
  Matches,
  Max,
  MaxLength,
  Min,
  MinLength,
  ValidateNested,
} from 'class-validator';
import { LocalProvider, streams } from '../../libs/wire/test/local-provider.js';

class Search {
  @IsString() @MinLength(1) @MaxLength(80) name!: string;
  @IsOptional() @IsInt() @Min(1) @Max(50) limit = 10;
  @IsOptional() @IsIn(['asc', 'desc']) order?: string;
}
class ById {
  @IsUUID() id!: string;
}
class Contact {
  @IsEmail() email!: string;
  @IsOptional() @IsUrl() site?: string;
}
class Tags {
  @IsArray() @IsString({ each: true }) @ArrayMaxSize(5) tags!: string[];
}
class Line {
  @IsString() @MaxLength(20) sku!: string;
  @IsOptional() @IsInt() quantity?: number;
}
class Order {
  @IsArray() @ValidateNested({ each: true }) @Nested(() => Line) lines!: Line[];
  @IsOptional() @ValidateNested() @Nested(() => Line) gift?: Line;
}
class Between {
  @IsDateString() from!: string;
  @IsOptional() @IsDateString() to?: string;
}
class Flags {
  @IsOptional() @IsBoolean() isUrgent = false;
}
class Code {
  @MaxLength(3) @Matches(/^(?!X)[A-Z]{3}$/) code!: string;
}
class Amount {
  @IsNumber() @Min(0) amount!: number;
  @IsOptional() @IsString() @MaxLength(200) note?: string;
}
class Update {
  @IsString() id!: string;
  @ToolField({ nullable: true }) @IsOptional() @IsString() comment?: string | null;
}
class Page {
  @IsOptional() @IsInt() page?: number;
  @IsOptional() @IsInt() size = 20;
}
class Described {
  @ToolField({ description: 'The city', example: 'Paris' }) @IsString() city!: string;
}

const seen: unknown[] = [];

/** A provider with one tool of this input, under its name. */
function providerOf(input: Type): Type {
  @Injectable()
  @ToolProvider({ namespace: input.name.toLowerCase() })
  class Tools {
    @LlmTool({
      description: 'Takes it.',
      effect: 'read_only',
      reveal: 'all',
      patterns: { engine: 'backtracking', reason: 'Codes of three letters.' },
    })
    take(given: unknown): string {
      seen.push({ ...(given as object) });
      return 'Taken.';
    }
  }
  ToolInput(input)(Tools.prototype, 'take', 0);
  return Tools;
}

const INPUTS: readonly Type[] = [
  Search,
  ById,
  Contact,
  Tags,
  Order,
  Between,
  Flags,
  Code,
  Amount,
  Update,
  Page,
  Described,
];

let provider: LocalProvider | undefined;
let module: TestingModule | undefined;

afterEach(async () => {
  await module?.close();
  await provider?.[Symbol.asyncDispose]();
  seen.length = 0;
});

const chunk = (delta: object, finish_reason: string): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\ndata: [DONE]\n\n`;

/** Runs a model that calls one tool with these arguments, then answers. */
async function run(name: string, args: object): Promise<LocalProvider> {
  const call = {
    index: 0,
    id: 'call_1',
    type: 'function',
    function: { name, arguments: JSON.stringify(args) },
  };
  provider = await LocalProvider.start(
    streams(chunk({ tool_calls: [call] }, 'tool_calls')),
    streams(chunk({ content: 'Done.' }, 'stop')),
  );
  const model = openai('own-1', { baseURL: provider.baseURL });
  module = await Test.createTestingModule({
    imports: [ToolLoopModule.forRoot({ model, policy: policies.allowAll })],
    providers: INPUTS.map(providerOf),
  }).compile();
  module.useLogger(false);
  await module.init();
  await module.get(ToolLoopService).run({ prompt: 'Hi', actor: 'alice', tenant: 'acme' });
  return provider;
}

interface SentTool {
  readonly function: {
    readonly name: string;
    readonly strict?: boolean;
    readonly parameters: object;
  };
}

describe('strict mode', () => {
  it('is on for all ordinary inputs but the one of which null and absent are two things', async () => {
    const { requests } = await run('search__take', { name: 'Ann', limit: null, order: null });
    const { tools } = JSON.parse(requests[0]?.body ?? '') as {
      readonly tools: readonly SentTool[];
    };
    expect(tools).toHaveLength(INPUTS.length);
    expect(
      tools.filter((tool) => tool.function.strict !== true).map((tool) => tool.function.name),
    ).toEqual(['update__take']);
  });

  it.each<[string, object, object]>([
    ['search__take', { name: 'Ann', limit: null, order: null }, { name: 'Ann', limit: 10 }],
    ['page__take', { page: null, size: null }, { size: 20 }],
    [
      'order__take',
      { lines: [{ sku: 'a', quantity: null }], gift: null },
      { lines: [{ sku: 'a' }] },
    ],
    ['update__take', { id: 'a', comment: null }, { id: 'a', comment: null }],
  ])(
    'has %s read null as absent before it is checked, and as null where that is a value',
    async (name, args, expected) => {
      const { requests } = await run(name, args);
      expect(seen).toEqual([expected]);
      expect(requests[1]?.body).toContain('Taken.');
    },
  );
});

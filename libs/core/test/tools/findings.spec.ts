import { describe, expect, it } from '@jest/globals';
import { Injectable, Module } from '@nestjs/common';
import { Expose, Type } from 'class-transformer';
import { IsString, ValidateNested } from 'class-validator';
import {
  ConfigurationError,
  LlmTool,
  type ToolCallContext,
  ToolContext,
  ToolInput,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { compile, findingsOf, start } from './application.js';

const fine = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;

class User {
  id = 'u1';
}

class Admin extends User {}

class Address {
  @IsString() tenant_id!: string;
}

class Nested {
  @ValidateNested({ each: true }) @Type(() => Address) addresses!: Address[];
}

class Named {
  @IsString() name!: string;
}

describe('invariant 4: a tool at bootstrap', () => {
  it('invariant 4: is refused without an effect', async () => {
    @ToolProvider()
    class NoEffectTools {
      // @ts-expect-error an effect is required
      @LlmTool({ description: 'Does it.', reveal: 'all' }) run(): void {}
    }
    expect(await findingsOf({ providers: [NoEffectTools] })).toEqual([
      {
        at: 'NoEffectTools.run',
        problem: 'The tool declares no effect.',
        remedy: 'Add @LlmTool({ effect }): one of read_only, state_change, external_side_effect.',
      },
    ]);
  });

  it('invariant 4: is refused with an effect that does not exist', async () => {
    @ToolProvider()
    class OddTools {
      // @ts-expect-error no such effect
      @LlmTool({ ...fine, effect: 'readonly' }) run(): void {}
    }
    expect(await findingsOf({ providers: [OddTools] })).toEqual([
      {
        at: 'OddTools.run',
        problem: '"readonly" is not an effect.',
        remedy: expect.stringContaining('read_only'),
      },
    ]);
  });

  it('invariant 4: is refused without a declaration of what may leave it', async () => {
    @ToolProvider()
    class OpenTools {
      // @ts-expect-error output or reveal is required
      @LlmTool({ description: 'Does it.', effect: 'read_only' }) run(): void {}
    }
    expect(await findingsOf({ providers: [OpenTools] })).toEqual([
      {
        at: 'OpenTools.run',
        problem: 'The tool does not say which data may leave it.',
        remedy: expect.stringContaining('@LlmTool({ output: SomeClass })'),
      },
    ]);
  });

  it('invariant 4: is refused with two declarations of what may leave it', async () => {
    @ToolProvider()
    class TwiceTools {
      // @ts-expect-error output or reveal, not both
      @LlmTool({ ...fine, output: Named }) run(): void {}
    }
    expect(await findingsOf({ providers: [TwiceTools] })).toMatchObject([
      { at: 'TwiceTools.run', problem: 'The tool says twice which data may leave it.' },
    ]);
  });

  it('invariant 4: is refused with a `reveal` that is neither all nor a list of names', async () => {
    @ToolProvider()
    class VagueTools {
      // @ts-expect-error a list is needed
      @LlmTool({ ...fine, reveal: 'name' }) run(): void {}
    }
    expect(await findingsOf({ providers: [VagueTools] })).toMatchObject([
      { at: 'VagueTools.run', problem: 'The tool does not say which data may leave it.' },
    ]);
  });

  it('invariant 4: is refused without a description', async () => {
    @ToolProvider()
    class MuteTools {
      @LlmTool({ ...fine, description: ' ' }) run(): void {}
    }
    expect(await findingsOf({ providers: [MuteTools] })).toMatchObject([
      { at: 'MuteTools.run', problem: 'The tool has no description.' },
    ]);
  });

  it('invariant 4: is refused with the id of another tool', async () => {
    @ToolProvider({ namespace: 'crm' })
    class OneTools {
      @LlmTool(fine) search(): void {}
    }
    @ToolProvider({ namespace: 'crm' })
    class OtherTools {
      @LlmTool({ ...fine, name: 'search' }) find(): void {}
    }
    expect(await findingsOf({ providers: [OneTools, OtherTools] })).toEqual([
      {
        at: 'OtherTools.find',
        problem: 'Its id "crm__search" is also the id of OneTools.search.',
        remedy:
          'Give one of them another name or namespace, or provide its class in one module only.',
      },
    ]);
  });

  it('invariant 4: is refused with an id that differs from that of another tool only in case', async () => {
    @ToolProvider({ namespace: 'db' })
    class UpperTools {
      @LlmTool(fine) find(): void {}
    }
    @ToolProvider({ namespace: 'db' })
    class LowerTools {
      @LlmTool({ ...fine, name: 'Find' }) search(): void {}
    }
    expect(await findingsOf({ providers: [UpperTools, LowerTools] })).toMatchObject([
      {
        at: 'LowerTools.search',
        problem:
          'Its id "db__Find" differs only in case from "db__find", the id of UpperTools.find.',
      },
    ]);
  });

  it('invariant 4: is refused when two modules provide its class', async () => {
    @ToolProvider()
    class SharedTools {
      @LlmTool(fine) run(): void {}
    }
    @Module({})
    class OtherModule {}
    const imports = [{ module: OtherModule, providers: [SharedTools] }];
    const problem =
      'RootTestModule and OtherModule provide it, each with an instance of its own, and their tools have the same ids.';
    expect(await findingsOf({ providers: [SharedTools], imports })).toMatchObject([
      { at: 'SharedTools', problem },
    ]);
  });

  it.each([
    ['a namespace with a space', { namespace: 'my crm' }, undefined, 'my crm__run'],
    ['a name with a dot', {}, 'a.b', 'unsafe__a.b'],
    ['65 characters', { namespace: 'n'.repeat(60) }, undefined, `${'n'.repeat(60)}__run`],
  ])('invariant 4: is refused with an id no provider accepts: %s', async (_, options, name, id) => {
    @ToolProvider(options)
    class UnsafeTools {
      @LlmTool({ ...fine, ...(name !== undefined && { name }) }) run(): void {}
    }
    expect(await findingsOf({ providers: [UnsafeTools] })).toEqual([
      {
        at: 'UnsafeTools.run',
        problem: `"${id}" is not a tool id that every model provider accepts.`,
        remedy: expect.stringContaining('@LlmTool({ name })'),
      },
    ]);
  });

  it.each([
    'tenant',
    'tenantId',
    'tenant_id',
    'TenantID',
    'tenant-id',
    'actor',
    'actorId',
    'actor_id',
  ])('invariant 4: is refused with a parameter named %s', async (name) => {
    @ToolProvider()
    class ReservedTools {
      @LlmTool(fine) run(
        @ToolParam(name, { description: 'x', type: 'string' }) value: string,
      ): string {
        return value;
      }
    }
    expect(await findingsOf({ providers: [ReservedTools] })).toEqual([
      {
        at: 'ReservedTools.run',
        problem: `The argument "${name}" has a reserved name.`,
        remedy: expect.stringContaining('@ToolContext()'),
      },
    ]);
  });

  it('invariant 4: is refused with a reserved name deep within a DTO', async () => {
    @ToolProvider()
    class DeepTools {
      @LlmTool(fine) run(@ToolInput() input: Nested): number {
        return input.addresses.length;
      }
    }
    expect(await findingsOf({ providers: [DeepTools] })).toMatchObject([
      { at: 'DeepTools.run', problem: 'The argument "tenant_id" has a reserved name.' },
    ]);
  });

  it('invariant 4: is refused with a name the application reserves instead', async () => {
    @ToolProvider()
    class OwnTools {
      @LlmTool(fine) run(
        @ToolParam('shop', { description: 'x', type: 'string' }) shop: string,
      ): string {
        return shop;
      }
    }
    expect(
      await findingsOf({ providers: [OwnTools], options: { reservedArguments: ['shop'] } }),
    ).toMatchObject([{ at: 'OwnTools.run', problem: 'The argument "shop" has a reserved name.' }]);
  });

  it('invariant 4: is refused with an exception from the reserved names and no reason', async () => {
    @ToolProvider()
    class ExceptTools {
      @LlmTool({ ...fine, allowReserved: { arguments: ['tenant'], reason: '  ' } })
      run(@ToolParam('tenant', { description: 'x', type: 'string' }) tenant: string): string {
        return tenant;
      }
    }
    expect(await findingsOf({ providers: [ExceptTools] })).toMatchObject([
      { at: 'ExceptTools.run', problem: 'It allows reserved arguments, but gives no reason.' },
    ]);
  });

  it('invariant 4: is accepted with a reserved name and a reason', async () => {
    @ToolProvider()
    class AllowedTools {
      @LlmTool({
        ...fine,
        allowReserved: {
          arguments: ['tenantId'],
          reason: 'Operators move customers between tenants.',
        },
      })
      run(@ToolParam('tenant_id', { description: 'x', type: 'string' }) tenant: string): string {
        return tenant;
      }
    }
    await expect(start({ providers: [AllowedTools] })).resolves.toBeDefined();
  });

  it('invariant 4: is refused with a parameter of the type of the actor, or of a class below it', async () => {
    @ToolProvider()
    class ActorTools {
      @LlmTool(fine) one(@ToolInput() user: User): string {
        return user.id;
      }

      @LlmTool(fine) other(@ToolInput() admin: Admin): string {
        return admin.id;
      }

      @LlmTool(fine) explicit(@ToolInput(User) user: { id: string }): string {
        return user.id;
      }

      @LlmTool(fine) context(@ToolContext() context: ToolCallContext): string {
        return context.tenant;
      }
    }
    const findings = await findingsOf({ providers: [ActorTools], options: { actorClass: User } });
    expect(
      findings
        .filter(({ problem }) => problem.startsWith('A parameter has the type of the actor'))
        .map(({ at }) => at),
    ).toEqual(['ActorTools.one', 'ActorTools.other', 'ActorTools.explicit']);
  });

  it('invariant 4: is refused with a parameter without a decorator', async () => {
    @ToolProvider()
    class GapTools {
      @LlmTool(fine) run(
        @ToolParam('name', { description: 'x' }) name: string,
        limit: number,
      ): string {
        return name + limit;
      }
    }
    expect(await findingsOf({ providers: [GapTools] })).toMatchObject([
      {
        at: 'GapTools.run',
        problem: 'Parameter 2 has no decorator, so nothing would ever be passed.',
      },
    ]);
  });

  it('invariant 4: is refused with decorated parameters and no @LlmTool()', async () => {
    @ToolProvider()
    class HalfTools {
      @LlmTool(fine) run(): void {}

      half(@ToolParam('name', { description: 'x' }) name: string): string {
        return name;
      }
    }
    expect(await findingsOf({ providers: [HalfTools] })).toEqual([
      {
        at: 'HalfTools.half',
        problem: 'Its parameters are decorated, but the method is not.',
        remedy: 'Add @LlmTool({ description, effect, output }) to the method.',
      },
    ]);
  });

  it('invariant 4: is refused when its class is not marked', async () => {
    @Injectable()
    class PlainService {
      @LlmTool(fine) run(): void {}
    }
    expect(await findingsOf({ providers: [PlainService] })).toEqual([
      {
        at: 'PlainService',
        problem: 'It has @LlmTool() methods and is not a provider of tools.',
        remedy: 'Mark the class @ToolProvider().',
      },
    ]);
  });

  it('invariant 4: is missing in a class that is marked, which is refused too', async () => {
    @ToolProvider()
    class EmptyTools {}
    expect(await findingsOf({ providers: [EmptyTools] })).toEqual([
      {
        at: 'EmptyTools',
        problem: 'It is marked @ToolProvider() and has no tools.',
        remedy: 'Mark a method @LlmTool(), or remove @ToolProvider().',
      },
    ]);
  });

  it('invariant 4: is refused when its Nest provider has a prefix', async () => {
    @ToolProvider({ prefix: 'crm' })
    class PrefixedTools {
      @LlmTool(fine) run(): void {}
    }
    expect(await findingsOf({ providers: [PrefixedTools] })).toMatchObject([
      { at: 'PrefixedTools', problem: 'It is a Nest provider and has a prefix.' },
    ]);
  });

  it('invariant 4: is refused when its result class exposes a method', async () => {
    class Leaky {
      @Expose() id = 'x';
      @Expose() secret(): string {
        return 'x';
      }
    }
    @ToolProvider()
    class LeakyTools {
      @LlmTool({ description: 'x', effect: 'read_only', output: Leaky }) run(): Leaky {
        return new Leaky();
      }
    }
    expect(await findingsOf({ providers: [LeakyTools] })).toEqual([
      {
        at: 'LeakyTools.run',
        problem: 'Leaky.secret() is a method with @Expose()',
        remedy: expect.stringContaining('make it a getter'),
      },
    ]);
  });

  it('invariant 4: is refused with an invalid time limit', async () => {
    @ToolProvider()
    class HastyTools {
      @LlmTool({ ...fine, timeoutMs: -1 }) negative(): void {}
      @LlmTool({ ...fine, timeoutMs: Number.NaN }) nothing(): void {}
    }
    expect(await findingsOf({ providers: [HastyTools] })).toMatchObject([
      { at: 'HastyTools.negative', problem: 'Its timeoutMs is -1.' },
      { at: 'HastyTools.nothing', problem: 'Its timeoutMs is NaN.' },
    ]);
  });
});

describe('invariant 4: one ConfigurationError', () => {
  it('invariant 4: names every finding at once, numbered, each with its remedy', async () => {
    @ToolProvider()
    class FirstTools {
      // @ts-expect-error an effect is required
      @LlmTool({ description: '', reveal: 'all' }) run(
        @ToolParam('tenant', { description: 'x', type: 'string' }) value: string,
      ): string {
        return value;
      }
    }
    @ToolProvider()
    class SecondTools {
      @LlmTool({ description: 'x', effect: 'read_only', output: Broken }) run(): void {}
    }
    const module = await compile({ providers: [FirstTools, SecondTools] });
    const error: unknown = await module.init().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConfigurationError);
    const { message, findings } = error as ConfigurationError;
    expect(findings.map(({ at }) => at)).toEqual([
      'FirstTools.run',
      'FirstTools.run',
      'FirstTools.run',
      'SecondTools.run',
      'Broken',
    ]);
    expect(message).toContain('Toolloop found 5 problems in the declarations and does not start:');
    expect(message).toContain(
      '  1. FirstTools.run: The tool has no description.\n     Say in @LlmTool({ description }) what it does.',
    );
    expect(message).toContain('  5. Broken: It is marked @ToolProvider() and has no tools.');
  });
});

@ToolProvider()
class Broken {
  readonly id = 'not exposed';
}

import { describe, expect, it } from '@jest/globals';
import { Controller, Injectable, Scope } from '@nestjs/common';
import { Expose } from 'class-transformer';
import {
  LlmTool,
  LoopEventSink,
  ToolInterceptor,
  ToolLoopModule,
  ToolProvider,
  ToolSource,
} from '@toolloop/core';
import { findingsOf } from './application.js';

const fine = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;
const METHOD = Symbol('method');

describe('invariant 4: a decorator where nothing would read it', () => {
  it('invariant 4: is a finding on a method named by a symbol', async () => {
    @ToolProvider()
    class SymbolTools {
      @LlmTool(fine) run(): void {}
      @LlmTool(fine) [METHOD](): void {}
    }
    expect(await findingsOf({ providers: [SymbolTools] })).toEqual([
      {
        at: 'SymbolTools.Symbol(method)',
        problem: 'It is named by a symbol, which no model can call.',
        remedy: 'Give the method a name that is text.',
      },
    ]);
  });

  it('invariant 4: is a finding on a method that has another, of a provider and of an entity', async () => {
    @ToolProvider()
    class TwiceTools {
      @LlmTool(fine) @LlmTool({ ...fine, name: 'other' }) run(): void {}
    }
    @ToolProvider({ prefix: 'pair' })
    class Twice {
      @Expose() id = '1';
      @LlmTool(fine) @LlmTool(fine) go(): void {}
    }
    const problem = 'It has two @LlmTool()s, of which one would never be read.';
    const imports = [ToolLoopModule.forFeature({ entities: [Twice] })];
    expect(await findingsOf({ providers: [TwiceTools], imports })).toMatchObject([
      { at: 'TwiceTools.run', problem },
      { at: 'Twice.go', problem },
    ]);
  });

  it('invariant 4: is a finding on a static method', async () => {
    @ToolProvider()
    class StaticTools {
      @LlmTool(fine) run(): void {}
      @LlmTool(fine) static search(): void {}
    }
    expect(await findingsOf({ providers: [StaticTools] })).toEqual([
      {
        at: 'StaticTools.search',
        problem: 'It is static, and tools are methods of an instance.',
        remedy: 'Remove `static`.',
      },
    ]);
  });

  it('invariant 4: is a finding on a getter, which is not run to find out', async () => {
    let reads = 0;
    @ToolProvider()
    class GetterTools {
      @LlmTool(fine) run(): void {}
      @LlmTool(fine) get search(): number {
        reads += 1;
        return reads;
      }
    }
    expect(await findingsOf({ providers: [GetterTools] })).toEqual([
      {
        at: 'GetterTools.search',
        problem: 'It is not a method.',
        remedy: 'Make it a method, or remove @LlmTool().',
      },
    ]);
    expect(reads).toBe(0);
  });

  it('invariant 4: is a finding on the methods of an entity too', async () => {
    @ToolProvider()
    class Customer {
      @Expose() id = '1';
      @LlmTool(fine) spend(): void {}
      @LlmTool(fine) static all(): void {}
      @LlmTool(fine) [METHOD](): void {}
    }
    const findings = await findingsOf({
      imports: [ToolLoopModule.forFeature({ entities: [Customer] })],
    });
    expect(findings.map(({ at }) => at)).toEqual(['Customer.all', 'Customer.Symbol(method)']);
  });

  it('invariant 4: is a finding on a method of a controller that answers no route', async () => {
    @Controller()
    @ToolProvider()
    class ChatController {
      @LlmTool(fine) run(): void {}
    }
    expect(await findingsOf({ controllers: [ChatController] })).toEqual([
      {
        at: 'ChatController.run',
        problem: 'It is a method of a controller, and answers no route.',
        remedy:
          'Move it to a class of its own that is in `providers`, or mark it @Get(), @Post() or the like.',
      },
    ]);
  });
});

describe('invariant 4: a port of the loop that would never be asked', () => {
  @Injectable({ scope: Scope.REQUEST })
  class RequestInterceptor extends ToolInterceptor {
    override intercept(): Promise<unknown> {
      return Promise.resolve();
    }
  }

  @Injectable({ scope: Scope.TRANSIENT })
  class TransientSink extends LoopEventSink {
    override write(): void {}
  }

  @Injectable({ scope: Scope.REQUEST })
  class RequestSource extends ToolSource {
    readonly origin = { source: 'remote', trusted: false };
    override tools(): [] {
      return [];
    }
  }

  it.each([
    ['a request-scoped interceptor', RequestInterceptor, 'ToolInterceptor'],
    ['a transient event sink', TransientSink, 'LoopEventSink'],
    ['a request-scoped source', RequestSource, 'ToolSource'],
  ])('invariant 4: is a finding: %s', async (_, type, port) => {
    expect(await findingsOf({ ports: [type] })).toEqual([
      {
        at: type.name,
        problem: `It is a ${port}, which the loop uses outside of any request, but it is not a singleton.`,
        remedy:
          'Remove its scope, and that of its dependencies; read the actor from the context of the call.',
      },
    ]);
  });
});

import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  BadRequestException,
  Catch,
  ClassSerializerInterceptor,
  Inject,
  Injectable,
  Logger,
  Module,
  Scope,
  SetMetadata,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
  ValidationPipe,
  type ArgumentsHost,
  type CanActivate,
  type CallHandler,
  type ExceptionFilter,
  type ExecutionContext,
  type ModuleMetadata,
  type NestInterceptor,
  type PipeTransform,
} from '@nestjs/common';
import { APP_FILTER, APP_GUARD, APP_INTERCEPTOR, APP_PIPE, Reflector } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { Expose } from 'class-transformer';
import { IsString } from 'class-validator';
import { map, type Observable } from 'rxjs';
import {
  LlmTool,
  type LoopResult,
  ToolExecutionContext,
  ToolInput,
  ToolLoopModule,
  ToolLoopService,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';

const ROLES = 'roles';

@Injectable()
class Permissions {
  has(actor: unknown, role: string): boolean {
    return typeof actor === 'object' && actor !== null && 'role' in actor && actor.role === role;
  }
}

/**
 * A guard as applications write them: it injects a service and reads metadata of method and class.
 */
@Injectable()
class RolesGuard implements CanActivate {
  constructor(
    private readonly reflector: Reflector,
    private readonly permissions: Permissions,
  ) {}

  canActivate(context: ExecutionContext): boolean {
    const roles =
      this.reflector.getAllAndOverride<string[] | undefined>(ROLES, [
        context.getHandler(),
        context.getClass(),
      ]) ?? [];
    const { actor } = ToolExecutionContext.create(context).getContext();
    return roles.every((role) => this.permissions.has(actor, role));
  }
}

class TrimPipe implements PipeTransform {
  transform(value: unknown): unknown {
    return typeof value === 'string' ? value.trim() : value;
  }
}

class RefusingPipe implements PipeTransform {
  transform(): never {
    throw new BadRequestException(['name is on the list of names we do not take']);
  }
}

@Catch(RangeError)
class RangeFilter implements ExceptionFilter {
  catch(error: RangeError): unknown {
    return { reason: `out of range: ${error.message}` };
  }
}

@Injectable()
class Doubling implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler<unknown>): Observable<unknown> {
    return next.handle().pipe(map((value) => `${String(value)}${String(value)}`));
  }
}

class NameInput {
  @IsString() name!: string;
}

@ToolProvider({ prefix: 'account' })
@SetMetadata(ROLES, ['teller'])
@UseGuards(RolesGuard)
class Account {
  @Expose() readonly id: string;
  readonly secret = 'never';

  constructor(id: string) {
    this.id = id;
  }

  @LlmTool({ description: 'Balance.', effect: 'read_only', reveal: 'all' })
  getBalance(): number {
    return 7;
  }

  @SetMetadata(ROLES, ['manager'])
  @LlmTool({ description: 'Close.', effect: 'state_change', reveal: 'all' })
  close(): string {
    return 'closed';
  }
}

@Injectable()
@ToolProvider({ namespace: 'bank' })
class BankTools {
  @LlmTool({ description: 'Find.', effect: 'read_only', output: [Account] })
  find(@ToolInput() _input: NameInput): Account[] {
    return [new Account('a1')];
  }

  @SetMetadata(ROLES, ['manager'])
  @UseGuards(RolesGuard)
  @LlmTool({ description: 'Audit.', effect: 'read_only', reveal: 'all' })
  audit(): string {
    return 'all well';
  }

  @UsePipes(new TrimPipe())
  @LlmTool({ description: 'Greet.', effect: 'read_only', reveal: 'all' })
  greet(@ToolParam('name', { description: 'Whom' }) name: string): string {
    return `<${name}>`;
  }

  @UsePipes(new RefusingPipe())
  @LlmTool({ description: 'Refuse.', effect: 'read_only', reveal: 'all' })
  refuse(@ToolInput() input: NameInput): string {
    return input.name;
  }

  @UseInterceptors(Doubling)
  @LlmTool({ description: 'Twice.', effect: 'read_only', reveal: 'all' })
  twice(): string {
    return 'ab';
  }

  @UseFilters(RangeFilter)
  @LlmTool({ description: 'Fail.', effect: 'read_only', reveal: 'all' })
  fail(@ToolParam('kind', { description: 'How' }) kind: string): string {
    if (kind === 'range') throw new RangeError('11');
    throw new Error('secret of the database');
  }
}

@Module({ providers: [Permissions], exports: [Permissions] })
class PermissionsModule {}

type Providers = NonNullable<ModuleMetadata['providers']>;

async function outcome(
  script: readonly (readonly [string, object])[],
  role: string,
  providers: Providers = [],
): Promise<LoopResult> {
  const model = new ScriptedModel([
    ...script.map(([name, args]) => calls(call(name, { ...args }))),
    text('done'),
  ]);
  const app = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({ model, policy: { allow: ['*'], flow: 'off' } }),
      ToolLoopModule.forFeature({ entities: [Account], imports: [PermissionsModule] }),
      PermissionsModule,
    ],
    providers: [BankTools, ...providers],
  }).compile();
  await app.init();
  return app
    .get(ToolLoopService)
    .run({ prompt: 'Go.', actor: { id: 'ada', role }, tenant: 'acme' });
}

function last({ toolCalls }: LoopResult): unknown {
  const record = toolCalls.at(-1);
  return record?.result ?? record?.error;
}

beforeEach(() => {
  Logger.overrideLogger(false);
});
afterEach(() => {
  Logger.overrideLogger(['error', 'warn']);
});

describe('a guard', () => {
  it('admits, on a method of a provider, the right actors and no others', async () => {
    expect(last(await outcome([['bank__audit', {}]], 'manager'))).toBe('all well');
    expect(last(await outcome([['bank__audit', {}]], 'teller'))).toMatchObject({
      code: 'forbidden',
    });
  });

  it('guards, on an entity class, the tools of its instances, by the metadata of class and method', async () => {
    const find = ['bank__find', { name: 'x' }] as const;
    expect(last(await outcome([find, ['account_a1_getBalance', {}]], 'teller'))).toBe(7);
    expect(last(await outcome([find, ['account_a1_getBalance', {}]], 'guest'))).toMatchObject({
      code: 'forbidden',
    });
    expect(last(await outcome([find, ['account_a1_close', {}]], 'teller'))).toMatchObject({
      code: 'forbidden',
    });
    expect(last(await outcome([find, ['account_a1_close', {}]], 'manager'))).toBe('closed');
  });

  it('guards every tool, entity tools included, when it is global', async () => {
    const seen: string[] = [];
    const guard: CanActivate = {
      canActivate: (context) => {
        seen.push(
          `${context.getType<string>()} ${context.getClass().name}.${context.getHandler().name}`,
        );
        return true;
      },
    };
    await outcome(
      [
        ['bank__find', { name: 'x' }],
        ['account_a1_getBalance', {}],
      ],
      'teller',
      [{ provide: APP_GUARD, useValue: guard }],
    );
    expect(seen).toEqual(['tool BankTools.find', 'tool Account.getBalance']);
  });

  it('keeps the call out when it is global and made for HTTP, and its error stays in the log', async () => {
    const guard: CanActivate = {
      canActivate: (context) =>
        context.switchToHttp().getRequest<{ headers: { a: string } }>().headers.a === 'b',
    };
    const result = last(
      await outcome([['bank__twice', {}]], 'manager', [{ provide: APP_GUARD, useValue: guard }]),
    );
    expect(result).toMatchObject({ code: 'forbidden', safeMessage: 'The call was not permitted.' });
    expect(JSON.stringify(result)).not.toContain('headers');
  });

  it('is made once per run, with the run as its request, when it is request-scoped', async () => {
    let made = 0;
    @Injectable({ scope: Scope.REQUEST })
    class Counting implements CanActivate {
      constructor() {
        made += 1;
      }

      canActivate(): boolean {
        return true;
      }
    }

    @Injectable()
    @ToolProvider({ namespace: 'scoped' })
    @UseGuards(Counting)
    class ScopedTools {
      @LlmTool({ description: 'Ping.', effect: 'read_only', reveal: 'all' })
      ping(@ToolParam('n', { description: 'n' }) n: number): number {
        return n;
      }
    }

    const result = await outcome(
      [
        ['scoped__ping', { n: 1 }],
        ['scoped__ping', { n: 2 }],
      ],
      'x',
      [ScopedTools],
    );
    expect(result.toolCalls.map((record) => record.result)).toEqual([1, 2]);
    expect(made).toBe(1);
  });
});

describe('a pipe', () => {
  it('changes the argument that the method receives, and the record tells what it received', async () => {
    const result = await outcome([['bank__greet', { name: '  Ada ' }]], 'x');
    expect(last(result)).toBe('<Ada>');
    expect(result.toolCalls[0]?.args).toEqual({ name: 'Ada' });
  });

  it('says why to the model when it refuses', async () => {
    const problems = [{ pointer: '', message: 'name is on the list of names we do not take' }];
    expect(last(await outcome([['bank__refuse', { name: 'x' }]], 'x'))).toMatchObject({
      code: 'invalid_args',
      problems,
    });
  });

  it('does no harm when it is global, such as the ValidationPipe', async () => {
    const pipe = {
      provide: APP_PIPE,
      useValue: new ValidationPipe({
        transform: true,
        whitelist: true,
        forbidNonWhitelisted: true,
      }),
    };
    expect(last(await outcome([['bank__find', { name: 'x' }]], 'x', [pipe]))).toEqual([
      { id: 'a1' },
    ]);
  });
});

describe('an interceptor', () => {
  it('may change what is shown', async () => {
    expect(last(await outcome([['bank__twice', {}]], 'x'))).toBe('abab');
  });

  it('hides no entity and lets nothing out when it serializes every result', async () => {
    const serializer = { provide: APP_INTERCEPTOR, useClass: ClassSerializerInterceptor };
    const result = await outcome([['bank__find', { name: 'x' }]], 'x', [serializer]);
    expect(last(result)).toEqual([{ id: 'a1' }]);
    expect(result.injectedTools.map(({ id }) => id)).toEqual([
      'account_a1_getBalance',
      'account_a1_close',
    ]);
    expect(JSON.stringify([result, result.messages])).not.toContain('never');
  });
});

describe('an exception filter', () => {
  it('words the error it catches, and never makes a success of it', async () => {
    const result = await outcome([['bank__fail', { kind: 'range' }]], 'x');
    expect(last(result)).toEqual({
      code: 'execution_failed',
      safeMessage: '{"reason":"out of range: 11"}',
    });
    expect(result.toolCalls[0]?.status).toBe('failed');
  });

  it('leaves other errors to the pipeline, which tells nothing of them', async () => {
    const error = last(await outcome([['bank__fail', { kind: 'other' }]], 'x'));
    expect(error).toMatchObject({ code: 'execution_failed' });
    expect(JSON.stringify(error)).not.toContain('secret of the database');
  });

  it('changes nothing when it is global and made for HTTP', async () => {
    @Catch()
    class HttpFilter implements ExceptionFilter {
      catch(_error: unknown, host: ArgumentsHost): void {
        host.switchToHttp().getResponse<{ status(code: number): void }>().status(500);
      }
    }

    const error = last(
      await outcome([['bank__fail', { kind: 'other' }]], 'x', [
        { provide: APP_FILTER, useClass: HttpFilter },
      ]),
    );
    expect(error).toMatchObject({ code: 'execution_failed' });
  });
});

describe('a layer that never answers', () => {
  const HANG = {
    description: 'Hangs.',
    effect: 'read_only',
    reveal: 'all',
    timeoutMs: 50,
  } as const;

  it('is stopped by the time limit where it is an exception filter', async () => {
    @Catch()
    class SilentFilter implements ExceptionFilter {
      catch(): Promise<never> {
        return new Promise(() => undefined);
      }
    }

    @Injectable()
    @ToolProvider({ namespace: 'hang' })
    class HangingTools {
      @UseFilters(SilentFilter)
      @LlmTool(HANG)
      run(): string {
        throw new Error('secret');
      }
    }

    const result = await outcome([['hang__run', {}]], 'x', [HangingTools]);
    expect(last(result)).toMatchObject({ code: 'execution_failed' });
    expect(result.finishReason).toBe('stop');
  });

  it('is stopped by the time limit where it is a request-scoped dependency', async () => {
    @Injectable({ scope: Scope.REQUEST })
    @ToolProvider({ namespace: 'hang' })
    class HangingTools {
      constructor(@Inject('never') readonly never: unknown) {}

      @LlmTool(HANG)
      run(): string {
        return 'never';
      }
    }

    const never = {
      provide: 'never',
      scope: Scope.REQUEST,
      useFactory: () => new Promise(() => undefined),
    };
    const result = await outcome([['hang__run', {}]], 'x', [HangingTools, never]);
    expect(last(result)).toMatchObject({ code: 'timeout' });
  });
});

describe('an entity with a guard that no feature names', () => {
  it('stops the start, since its guard would not be created', async () => {
    const app = await Test.createTestingModule({
      imports: [ToolLoopModule.forRoot({ model: new ScriptedModel([]) }), PermissionsModule],
      providers: [BankTools],
    }).compile();
    await expect(app.init()).rejects.toThrow('no module creates them');
  });
});

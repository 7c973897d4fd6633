import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  BadRequestException,
  Body,
  type CallHandler,
  type CanActivate,
  Catch,
  Controller,
  createParamDecorator,
  DefaultValuePipe,
  Delete,
  type ExceptionFilter,
  type ExecutionContext,
  ForbiddenException,
  Get,
  Inject,
  type INestApplication,
  Injectable,
  NotFoundException,
  Param,
  ParseIntPipe,
  Patch,
  Post,
  Query,
  Scope,
  SetMetadata,
  UnauthorizedException,
  UseFilters,
  UseGuards,
  UseInterceptors,
  ValidationPipe,
  type ArgumentsHost,
  type NestInterceptor,
} from '@nestjs/common';
import { APP_GUARD, REQUEST, Reflector } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import {
  LlmTool,
  type Policy,
  type RunContext,
  ToolContext,
  type ToolCallContext,
  ToolLoopModule,
  type ToolLoopOptions,
  ToolLoopService,
  ToolParam,
} from '@toolloop/core';
import { AuditStore, MemoryAuditStore } from '@toolloop/core/stores';
import { Expose, Type } from 'class-transformer';
import { IsInt, IsOptional, IsString, Max, MaxLength } from 'class-validator';
import { map, type Observable } from 'rxjs';
import type { JsonObject } from '@toolloop/protocol';
import { findingsOf, RecordingLogger, SilentModel } from './application.js';

interface User {
  readonly id: string;
  readonly roles: readonly string[];
}

const ada: User = { id: 'ada', roles: ['manager'] };
const bob: User = { id: 'bob', roles: [] };

/** What the guards, pipes and handlers of a test saw. */
let seen: Record<string, unknown>[] = [];

const Roles = (...roles: string[]) => SetMetadata('roles', roles);

/** The guard of Nest's own documentation. */
@Injectable()
class RolesGuard implements CanActivate {
  constructor(private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    const roles = this.reflector.getAllAndOverride<string[] | undefined>('roles', [
      context.getHandler(),
      context.getClass(),
    ]);
    const request = context.switchToHttp().getRequest<{ user?: User; headers: object }>();
    seen.push({
      type: context.getType(),
      handler: context.getHandler().name,
      class: context.getClass().name,
      request,
    });
    return !roles || roles.some((role) => request.user?.roles.includes(role));
  }
}

/** Finds out who asks by a header, as most applications do. */
@Injectable()
class TokenGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context
      .switchToHttp()
      .getRequest<{ user?: User; headers: Record<string, string> }>();
    const user = { 'Bearer ada': ada, 'Bearer bob': bob }[request.headers['authorization'] ?? ''];
    if (!user) throw new UnauthorizedException();
    request.user = user;
    return true;
  }
}

/** An identity as a JWT has it, with more than it may say. */
const asToken = ({ id, roles }: User) => ({
  user: { sub: id, roles },
  url: '/elsewhere',
  body: { name: 'other' },
});

const CurrentUser = createParamDecorator(
  (_: unknown, context: ExecutionContext) =>
    context.switchToHttp().getRequest<{ user: User }>().user,
);

class RenameOrder {
  @IsString()
  @MaxLength(20)
  name!: string;

  @IsOptional()
  @IsInt()
  @Max(9)
  @Type(() => Number)
  priority?: number;
}

class Order {
  @Expose() id!: string;
  @Expose() name!: string;
  @Expose() by!: string;
  secret = 'margin';
}

const READ = { description: 'Reads.', effect: 'read_only', reveal: 'all' } as const;

@Controller('tenants/:tenantId/orders')
@UseGuards(RolesGuard)
class OrdersController {
  @Patch(':id')
  @Roles('manager')
  @LlmTool({ description: 'Renames an order.', effect: 'state_change', output: Order })
  rename(
    @Param('tenantId') tenantId: string,
    @Param('id') id: string,
    @Body() body: RenameOrder,
    @CurrentUser() user: User,
  ): Order {
    seen.push({ body, isDto: body instanceof RenameOrder, tenantId });
    return Object.assign(new Order(), { id, name: body.name, by: user.id });
  }

  @Get()
  @LlmTool({ ...READ, description: 'Lists orders.' })
  list(
    @Query('limit', new DefaultValuePipe(10), ParseIntPipe)
    @ToolParam('limit', { description: 'How many.', required: false, maximum: 50 })
    limit: number,
    @Query('q') @ToolParam('q', { description: 'A part of the name.' }) q: string,
  ): object {
    return { limit, q, kind: typeof limit };
  }

  @Delete(':id')
  remove(): void {
    seen.push({ removed: true });
  }
}

let app: INestApplication | undefined;
let audit: MemoryAuditStore;

beforeEach(() => {
  seen = [];
  audit = new MemoryAuditStore();
});

afterEach(async () => {
  await app?.close();
  app = undefined;
});

interface Desk {
  readonly controllers?: readonly (new (...args: never[]) => object)[];
  readonly providers?: readonly object[];
  readonly options?: Partial<ToolLoopOptions>;
  readonly policy?: Policy;
}

/** An application with routes that are tools, over HTTP too. */
async function desk({
  controllers = [OrdersController],
  providers = [],
  options = {},
  policy = { allow: ['*'], flow: 'off' },
}: Desk = {}) {
  const root = ToolLoopModule.forRoot({
    model: new SilentModel(),
    policy,
    audit: { key: 'k'.repeat(32) },
    ...options,
    providers: [{ provide: AuditStore, useValue: audit }],
  });
  const module = await Test.createTestingModule({
    imports: [root],
    controllers: [...controllers],
    providers: [...(providers as never[])],
  })
    .setLogger(new RecordingLogger())
    .compile();
  app = module.createNestApplication();
  app.useGlobalPipes(
    new ValidationPipe({ whitelist: true, forbidNonWhitelisted: true, transform: true }),
  );
  await app.listen(0, '127.0.0.1');
  const loop: ToolLoopService = app.get(ToolLoopService);
  const url = await app.getUrl();
  return {
    loop,
    call: (tool: string, args: JsonObject, actor: object = ada, tenant = 'acme') =>
      loop.call({ tool, args, actor, tenant }),
    fetch: (path: string, init: RequestInit = {}) => fetch(`${url}${path}`, init),
  };
}

describe('a route that is a tool by one decorator', () => {
  it('is called with its role guard, the global ValidationPipe and a @CurrentUser() of its own', async () => {
    const { call } = await desk();
    const { record, ui } = await call('orders__rename', { id: 'o-1', name: 'Desk', priority: 2 });
    expect(record).toMatchObject({ status: 'succeeded', declaredId: 'orders__rename' });
    expect(ui).toEqual({ id: 'o-1', name: 'Desk', by: 'ada' });
    expect(seen.at(-1)).toEqual({
      body: { name: 'Desk', priority: 2 },
      isDto: true,
      tenantId: 'acme',
    });
    expect(seen[0]).toMatchObject({
      type: 'http',
      handler: 'rename',
      class: 'OrdersController',
      request: {
        method: 'PATCH',
        url: '/tenants/acme/orders/o-1',
        params: { tenantId: 'acme', id: 'o-1' },
        query: {},
        body: { name: 'Desk', priority: 2 },
        headers: {},
        user: ada,
      },
    });
  });

  it('keeps out whom its role guard keeps out', async () => {
    const { call } = await desk();
    const { record } = await call('orders__rename', { id: 'o-1', name: 'Desk' }, bob);
    expect(record).toMatchObject({ status: 'denied', error: { code: 'forbidden' } });
    expect(seen).toHaveLength(1);
  });

  it('answers over HTTP as before', async () => {
    const { fetch } = await desk({
      providers: [{ provide: APP_GUARD, useClass: TokenGuard }],
      options: { identity: { replacedGuards: [TokenGuard] } },
    });
    const init = {
      method: 'PATCH',
      body: JSON.stringify({ name: 'Desk' }),
      headers: { 'content-type': 'application/json', authorization: 'Bearer ada' },
    };
    const answer = await fetch('/tenants/acme/orders/o-1', init);
    expect(await answer.json()).toMatchObject({ id: 'o-1', name: 'Desk', by: 'ada' });
    expect((await fetch('/tenants/acme/orders/o-1', { ...init, headers: {} })).status).toBe(401);
  });

  it('has one closed schema of path, query and body, without the tenant', async () => {
    const { loop } = await desk();
    const [rename, list] = await loop.list({ actor: ada, tenant: 'acme' });
    expect(rename?.inputSchema).toMatchObject({
      required: ['name', 'id'],
      additionalProperties: false,
      properties: {
        id: { type: 'string' },
        name: { type: 'string', maxLength: 20 },
        priority: { type: 'integer', maximum: 9 },
      },
    });
    expect(Object.keys(rename?.inputSchema.properties ?? {})).not.toContain('tenantId');
    expect(list?.inputSchema).toMatchObject({
      properties: {
        limit: { type: 'integer', description: 'How many.', maximum: 50 },
        q: { type: 'string' },
      },
    });
  });

  it('fills the default of its query by its own pipes', async () => {
    const { call } = await desk();
    expect((await call('orders__list', { q: 'a b' })).ui).toEqual({
      limit: 10,
      q: 'a b',
      kind: 'number',
    });
    expect((await call('orders__list', { q: 'a', limit: 3 })).ui).toEqual({
      limit: 3,
      q: 'a',
      kind: 'number',
    });
  });

  it('is told of wrong arguments before its handler, and reads what the pipes say', async () => {
    const { call } = await desk();
    const { record } = await call('orders__rename', { id: 'o-1', name: 'x'.repeat(21) });
    expect(record).toMatchObject({
      status: 'failed',
      error: { code: 'invalid_args', problems: [{ pointer: '/name' }] },
    });
    expect(seen).toEqual([]);
  });

  it('is not offered where no @LlmTool() is', async () => {
    const { loop, call } = await desk();
    expect((await loop.list({ actor: ada, tenant: 'acme' })).map(({ id }) => id)).toEqual([
      'orders__rename',
      'orders__list',
    ]);
    expect((await call('orders__remove', { id: 'o-1' })).record).toMatchObject({
      error: { code: 'unknown_tool' },
    });
    expect(seen).toEqual([]);
  });
});

describe('a forged argument', () => {
  it.each(['user', 'headers', 'method', '__proto__'])(
    'changes nothing about the request where it is named "%s"',
    async (name) => {
      const { call } = await desk();
      const { record } = await call(
        'orders__rename',
        JSON.parse(
          `{"id":"o-1","name":"Desk","${name}":{"id":"mallory","roles":["manager"]}}`,
        ) as JsonObject,
        bob,
      );
      expect(record).toMatchObject({ status: 'failed' });
      expect(seen.some(({ isDto }) => isDto)).toBe(false);
    },
  );

  it.each(['tenantId', 'tenant', 'TENANT_ID'])(
    'is refused where it is named "%s", and the tenant of the run fills the path',
    async (name) => {
      const { call } = await desk();
      const { record } = await call('orders__rename', {
        id: 'o-1',
        name: 'Desk',
        [name]: 'globex',
      });
      expect(record).toMatchObject({ error: { code: 'tenant_override' } });
      await call('orders__rename', { id: 'o-1', name: 'Desk' }, ada, 'globex');
      expect(seen.at(-1)).toMatchObject({ tenantId: 'globex' });
    },
  );

  it('cannot leave its part of the address, which holds no half of a character', async () => {
    const { call } = await desk();
    await call('orders__rename', { id: '../../globex/orders/o-2?x=1#', name: 'Desk' });
    expect(seen[0]).toMatchObject({
      request: { url: '/tenants/acme/orders/..%2F..%2Fglobex%2Forders%2Fo-2%3Fx%3D1%23' },
    });
    await call('orders__rename', { id: 'o-\ud800', name: 'Desk' });
    expect(seen[2]).toMatchObject({ request: { url: '/tenants/acme/orders/o-%EF%BF%BD' } });
  });

  it('reaches a guard only in a request that it cannot change', async () => {
    const { call } = await desk();
    await call('orders__rename', { id: 'o-1', name: 'Desk' });
    const { request } = seen[0] as { request: { body: object; params: object; headers: object } };
    for (const part of [request, request.body, request.params, request.headers])
      expect(Object.isFrozen(part)).toBe(true);
  });
});

describe('a guard that authenticates by a header', () => {
  const guarded = { providers: [{ provide: APP_GUARD, useClass: TokenGuard }] };

  it('keeps every call out until it is named', async () => {
    const { call } = await desk(guarded);
    expect((await call('orders__list', { q: 'a' })).record).toMatchObject({
      error: { code: 'forbidden' },
    });
  });

  it('is replaced by the identity of the run where it is named, which the audit says with every call', async () => {
    const { call } = await desk({
      ...guarded,
      options: { identity: { replacedGuards: [TokenGuard] } },
    });
    expect((await call('orders__list', { q: 'a' })).record).toMatchObject({ status: 'succeeded' });
    expect((await call('orders__rename', { id: 'o-1', name: 'Desk' }, bob)).record).toMatchObject({
      error: { code: 'forbidden' },
    });
    const entries = await audit.read('acme', { from: 1, limit: 20 });
    expect(entries.filter(({ kind }) => kind === 'opt-out')).toMatchObject([
      { names: ['TokenGuard'], declaredId: 'orders__list' },
    ]);
  });

  it('is replaced where a handler has it as an instance, or its class names it', async () => {
    @Controller('notes')
    @UseGuards(TokenGuard)
    class NotesController {
      @Get()
      @UseGuards(new TokenGuard())
      @LlmTool(READ)
      all(): string {
        return 'none';
      }
    }
    const { call } = await desk({
      controllers: [NotesController],
      options: { identity: { replacedGuards: [TokenGuard] } },
    });
    expect((await call('notes__all', {})).ui).toBe('none');
  });

  it('finds what `identity.request` puts on the request, and never the method, the address or the arguments', async () => {
    const { call } = await desk({ options: { identity: { request: asToken as never } } });
    await call('orders__rename', { id: 'o-1', name: 'Desk' });
    expect(seen[0]).toMatchObject({
      request: {
        user: { sub: 'ada', roles: ['manager'] },
        url: '/tenants/acme/orders/o-1',
        body: { name: 'Desk' },
      },
    });
  });

  it('keeps the application from starting where it is named and guards no route', async () => {
    const at = 'ToolLoopModule.forRoot({ identity: { replacedGuards } })';
    const controllers = [OrdersController];
    expect(
      await findingsOf({ controllers, options: { identity: { replacedGuards: [TokenGuard] } } }),
    ).toMatchObject([{ at, problem: expect.stringContaining('TokenGuard') }]);
    expect(
      await findingsOf({
        controllers,
        options: { identity: { replacedGuards: ['TokenGuard'] as never } },
      }),
    ).toHaveLength(1);
  });
});

describe('the other layers of a route', () => {
  it('hold as they do for a request: interceptors, filters and a handler that throws', async () => {
    @Injectable()
    class Wrapped implements NestInterceptor {
      intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
        context
          .switchToHttp()
          .getResponse<{ setHeader(name: string, value: string): void }>()
          .setHeader('x-seen', '1');
        return next.handle().pipe(map((data: unknown) => ({ data, type: context.getType() })));
      }
    }

    @Catch(NotFoundException)
    class Worded implements ExceptionFilter {
      catch(error: NotFoundException, host: ArgumentsHost): void {
        const response = host
          .switchToHttp()
          .getResponse<{ status(code: number): { json(body: unknown): void } }>();
        response.status(404).json({ message: `Nothing here: ${error.message}` });
      }
    }

    @Controller('notes')
    @UseInterceptors(Wrapped)
    @UseFilters(Worded)
    class NotesController {
      @Get(':id')
      @LlmTool(READ)
      one(@Param('id', ParseIntPipe) id: number): object {
        if (id === 404) throw new NotFoundException('note 404');
        if (id === 403) throw new ForbiddenException('Not yours.');
        return { id };
      }
    }
    const { call } = await desk({ controllers: [NotesController] });
    expect((await call('notes__one', { id: 7 })).ui).toEqual({ data: { id: 7 }, type: 'http' });
    expect((await call('notes__one', { id: 404 })).record.error).toMatchObject({
      safeMessage: '{"message":"Nothing here: note 404"}',
    });
    expect((await call('notes__one', { id: 403 })).record.error).toMatchObject({
      code: 'forbidden',
      safeMessage: 'Not yours.',
    });
    expect((await call('notes__one', { id: 'x' })).record.error).toMatchObject({
      code: 'invalid_args',
    });
  });

  it('say that arguments are wrong where a pipe says so, and that a call is forbidden where a guard throws anything else', async () => {
    const boom = {
      canActivate: () => {
        throw new TypeError('headers of undefined');
      },
    };
    const bad = {
      transform: () => {
        throw new BadRequestException(['id must be a note']);
      },
    };

    @Controller('notes')
    class NotesController {
      @Get('a')
      @UseGuards(boom)
      @LlmTool(READ)
      guarded(): void {}

      @Get('b/:id')
      @LlmTool(READ)
      piped(@Param('id', bad) id: string): string {
        return id;
      }
    }
    const { call } = await desk({ controllers: [NotesController] });
    expect((await call('notes__guarded', {})).record.error).toMatchObject({
      code: 'forbidden',
      safeMessage: 'The call was not permitted.',
    });
    expect((await call('notes__piped', { id: '1' })).record.error).toMatchObject({
      code: 'invalid_args',
      problems: [{ message: 'id must be a note' }],
    });
  });

  it('are those of the run for a controller that is made per request, and the handler can take the context of the call', async () => {
    @Controller({ path: 'notes', scope: Scope.REQUEST })
    @UseGuards(RolesGuard)
    class NotesController {
      constructor(@Inject(REQUEST) private readonly request: RunContext) {}

      @Post()
      @LlmTool(READ)
      @Roles('manager')
      add(@Body() body: RenameOrder, @ToolContext() context?: ToolCallContext): object {
        return { name: body.name, tenant: context?.tenant, of: this.request.tenant };
      }
    }
    const { call } = await desk({ controllers: [NotesController] });
    expect((await call('notes__add', { name: 'a' })).ui).toEqual({
      name: 'a',
      tenant: 'acme',
      of: 'acme',
    });
    expect((await call('notes__add', { name: 'a' }, bob)).record.error).toMatchObject({
      code: 'forbidden',
    });
  });
});

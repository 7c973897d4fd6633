import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Opt } from '@mikro-orm/core';
import { Entity, Enum, PrimaryKey, Property } from '@mikro-orm/decorators/legacy';
import { MikroOrmModule } from '@mikro-orm/nestjs';
import { MikroORM, PostgreSqlDriver } from '@mikro-orm/postgresql';
import { Injectable, type OnModuleInit } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  LlmTool,
  type JsonObject,
  type RunContext,
  ToolCatalog,
  type ToolCallContext,
  ToolContext,
  ToolField,
  ToolLoopModule,
  ToolLoopService,
  ToolParam,
} from '@toolloop/core';
import type { CallResult, ToolWord } from '@toolloop/core/contracts';
import { Database, DurableModule } from '@toolloop/durable';
import { ResourcePolicy, ResourceToolsModule, ToolResource } from '@toolloop/resources';
import { MikroOrmGateway, mikroOrmGateway } from '@toolloop/resources/mikro-orm';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { inMemory } from '../../durable/test/databases.js';

enum PostStatus {
  Draft = 'draft',
  Published = 'published',
}

@Entity({ tableName: 'posts' })
class Post {
  @PrimaryKey({ type: 'integer', autoincrement: true }) @Expose() id!: number;
  @Property({ type: 'string', length: 40, hidden: true }) tenant!: Opt<string>;
  /** The members' own words. */
  @Property({ type: 'string', length: 80 })
  @ToolField({ origin: 'application' })
  @Expose()
  title!: string;
  @Enum({ items: () => PostStatus, default: PostStatus.Draft })
  @ToolField({ origin: 'application' })
  @Expose()
  status!: Opt<PostStatus>;
  @Property({ type: 'integer', fieldName: 'author_id', default: 1 })
  @ToolField({ origin: 'application' })
  @Expose()
  authorId!: Opt<number>;
  @Property({ type: 'integer', default: 0 })
  @ToolField({ origin: 'application' })
  @Expose()
  sold!: Opt<number>;
  /** Private: it is returned where a tool loads it. */
  @Property({ type: 'string', length: 80, nullable: true, hidden: true })
  @Expose()
  internalStatus?: string | null;
}

interface Member {
  readonly id: string;
}

@Injectable()
class MembersPolicy extends ResourcePolicy<Member> {
  override readonly version = 'members-1';

  override canRead({ actor }: RunContext<Member>): ToolWord {
    return actor.id !== 'guest' || { rule: 'posts: members', reason: 'Only members read posts.' };
  }

  override canWrite({ actor }: RunContext<Member>): boolean {
    return actor.id !== 'guest';
  }
}

@Injectable()
@ToolResource(Post, {
  namespace: 'posts',
  actions: {
    read: { load: ['internalStatus'] },
    create: { accept: ['title'] },
    update: { accept: ['title'] },
  },
  policy: MembersPolicy,
})
class PostTools {
  constructor(private readonly gateway: MikroOrmGateway) {}

  @LlmTool({ description: 'Publish a post.', effect: 'state_change', reveal: 'all' })
  publish(
    @ToolParam('id', { description: 'The id of the post.', type: 'integer' }) id: number,
    @ToolContext() context: ToolCallContext,
  ): Promise<string> {
    return this.gateway.within(context, async (em) => {
      const post = await em.findOneOrFail(Post, { id });
      post.status = PostStatus.Published;
      return `"${post.title}" is published.`;
    });
  }
}

@ToolResource(Post, {
  namespace: 'narrow',
  actions: { read: { actionParameters: ['limit', 'filter'] } },
})
class NarrowTools {}

@Injectable()
class Tables implements OnModuleInit {
  constructor(
    private readonly orm: MikroORM,
    private readonly gateway: MikroOrmGateway,
  ) {}

  async onModuleInit(): Promise<void> {
    await this.orm.schema.update();
    for (const statement of this.gateway.statements([Post]))
      await this.orm.em.fork().execute(statement);
  }
}

function parsed({ content }: CallResult): unknown {
  if (typeof content !== 'string') throw new TypeError('The model reads no text.');
  return JSON.parse(content);
}

const who = { actor: { id: 'ada' }, tenant: 'org' };

describe('the tools of a blog', () => {
  let app: TestingModule;
  let loop: ToolLoopService;
  beforeAll(async () => {
    app = await Test.createTestingModule({
      imports: [
        DurableModule.forRoot(await inMemory()),
        MikroOrmModule.forRootAsync({
          driver: PostgreSqlDriver,
          inject: [Database],
          useFactory: ({ connection }: Database) => ({
            dbName: 'blog',
            driverOptions: connection,
            entities: [Post],
            schemaGenerator: { ignoreSchema: ['toolloop', 'pgboss'] },
          }),
        }),
        ResourceToolsModule.forRoot({
          gateway: mikroOrmGateway({ tenancy: { role: 'toolloop_test_blog' } }),
        }),
        ResourceToolsModule.forFeature([PostTools, NarrowTools], { providers: [MembersPolicy] }),
        ToolLoopModule.forRoot({
          model: new ScriptedModel([]),
          policy: { allow: ['posts__*', 'narrow__*'] },
        }),
      ],
      providers: [Tables],
    }).compile();
    app.useLogger(false);
    await app.init();
    loop = app.get(ToolLoopService);
  });
  beforeEach(async () => {
    const em = app.get(MikroORM).em.fork();
    await em.execute('truncate posts restart identity');
    for (const [title, authorId, sold, tenant] of [
      ['Elixir', 1, 5, 'org'],
      ['Nest', 2, 9, 'org'],
      ['Types', 1, 7, 'org'],
      ['Foreign', 1, 99, 'other'],
    ] as const)
      em.create(Post, { title, authorId, sold, tenant, internalStatus: 'reviewed' });
    await em.flush();
  });
  afterAll(() => app?.close());

  const made = (tool: string, args: JsonObject, actorId = 'ada'): Promise<CallResult> =>
    loop.call({ tool, args, argsOrigin: 'actor', actor: { id: actorId }, tenant: 'org' });
  const read = async (args: JsonObject): Promise<{ readonly rows: readonly Partial<Post>[] }> =>
    parsed(await made('posts__read', args)) as never;

  it('read with a filter, and return only what it matches', async () => {
    const { rows } = await read({ filter: { authorId: { eq: 1 } } });
    expect(rows.map(({ title, authorId }) => [title, authorId])).toEqual([
      ['Elixir', 1],
      ['Types', 1],
    ]);
  });

  it('return a private field that is loaded, and take it in no filter', async () => {
    const { rows } = await read({ limit: 1 });
    expect(rows).toMatchObject([{ title: 'Elixir', internalStatus: 'reviewed' }]);
    expect(
      JSON.stringify(app.get(ToolCatalog).find('posts__read')?.spec.inputSchema),
    ).not.toContain('internalStatus');
  });

  it('take null for no arguments', async () => {
    const { record } = await loop.call({ ...who, tool: 'posts__read', args: null as never });
    expect(record.status).toBe('succeeded');
  });

  it('offer no other parameters than the resource names', () => {
    const { inputSchema } = app.get(ToolCatalog).find('narrow__read')?.spec ?? {};
    expect(
      Object.keys((inputSchema as { readonly properties: object }).properties).toSorted(),
    ).toEqual(['filter', 'limit']);
  });

  it('refuse an actor whom the policy does not let read, with an error that says so', async () => {
    const answer = await made('posts__read', {}, 'guest');
    expect(answer.record).toMatchObject({
      status: 'denied',
      decision: { rule: 'posts: members', policyVersion: 'members-1' },
    });
    expect(parsed(answer)).toMatchObject({
      errors: [{ status: expect.any(String), code: expect.any(String) }],
    });
  });

  it('creates a post and publishes it in one run of a model, with the same actor and tenant in every call', async () => {
    const model = new ScriptedModel([
      calls(call('posts__create', { input: { title: 'About Elixir' } })),
      calls(call('posts__publish', { id: 5 })),
      text('It is published.'),
    ]);
    const result = await loop.run({
      ...who,
      model,
      prompt: 'Create a draft post about Elixir and publish it',
    });
    expect(result.toolCalls.map(({ declaredId, status }) => [declaredId, status])).toEqual([
      ['posts__create', 'succeeded'],
      ['posts__publish', 'succeeded'],
    ]);
    expect(result.text).toBe('It is published.');
    const stored = await app
      .get(MikroORM)
      .em.fork()
      .execute('select tenant, status from posts where id = 5');
    expect(stored).toEqual([{ tenant: 'org', status: 'published' }]);
  });

  it('find the posts that sell best, and count them', async () => {
    const { rows } = await read({
      sort: [{ field: 'sold', descending: true }],
      limit: 2,
      select: ['title'],
    });
    expect(rows.map(({ title }) => title)).toEqual(['Nest', 'Types']);
    expect(await read({ result_type: 'count' })).toEqual({ count: 3 });
    expect(
      await read({ result_type: 'aggregate', aggregate: { kind: 'sum', field: 'sold' } }),
    ).toEqual({ value: 21 });
  });

  it('refuse a create without a title, with a pointer to it', async () => {
    const answer = await made('posts__create', { input: {} });
    expect(parsed(answer)).toMatchObject({
      errors: [{ status: '400', source: { pointer: '/input/title' } }],
    });
  });
});

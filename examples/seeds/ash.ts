/**
 * Actions of an application as tools: listed, called directly without a model and by a loop, under
 * one policy, with the same callbacks and the same JSON:API errors.
 *
 * `npm run example -- ash`
 */
import { Injectable, Module } from '@nestjs/common';
import {
  LlmTool,
  ToolCatalog,
  ToolContext,
  type ToolCallContext,
  ToolError,
  ToolField,
  ToolInput,
  ToolLoopModule,
  ToolLoopService,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import type { LoopHooks } from '@toolloop/core/contracts';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { IsInt, IsOptional, IsString, Max, MaxLength, Min } from 'class-validator';
import { print, runIfMain, withApplication } from '../run.js';

class Post {
  /**
   * Made by the application, as the title is made by the editors of the blog: reading them makes no
   * later call suspect.
   */
  @ToolField({ origin: 'application' }) @Expose() readonly id: string;
  @ToolField({ origin: 'application' }) @Expose() readonly title: string;
  @ToolField({ origin: 'application' }) @Expose() status: 'draft' | 'published' = 'draft';
  /** Not exposed: no tool shows it, whatever it is asked for. */
  readonly tenant: string;

  constructor(id: string, title: string, tenant: string) {
    this.id = id;
    this.title = title;
    this.tenant = tenant;
  }
}

class CreatePost {
  @ToolField({ description: 'The title of the post.' }) @IsString() @MaxLength(80) title!: string;
}

class ReadPosts {
  @IsOptional() @IsInt() @Min(1) @Max(50) limit = 10;
}

@Injectable()
@ToolProvider({ namespace: 'posts' })
class PostTools {
  private readonly posts: Post[] = [];

  @LlmTool({ description: 'Read posts.', effect: 'read_only', output: [Post] })
  read(@ToolInput() { limit }: ReadPosts, @ToolContext() { tenant }: ToolCallContext): Post[] {
    return this.posts.filter((post) => post.tenant === tenant).slice(0, limit);
  }

  @LlmTool({ description: 'Create a draft.', effect: 'state_change', output: Post })
  create(@ToolInput() { title }: CreatePost, @ToolContext() { tenant }: ToolCallContext): Post {
    const post = new Post(`p-${this.posts.length + 1}`, title, tenant);
    this.posts.push(post);
    return post;
  }

  @LlmTool({ description: 'Publish a draft.', effect: 'state_change', output: Post })
  publish(
    @ToolParam('id', { description: 'The id of the post.' }) id: string,
    @ToolContext() { tenant }: ToolCallContext,
  ): Post {
    const post = this.posts.find((one) => one.id === id && one.tenant === tenant);
    if (!post) throw new ToolError(`No post has the id "${id}".`);
    post.status = 'published';
    return post;
  }
}

const model = new ScriptedModel([
  calls(call('posts__create', { title: 'Elixir' })),
  calls(call('posts__publish', { id: 'p-2' })),
  text("I've created and published the post."),
]);

/** Readers read; editors create and publish too. No other actor is told of these tools. */
const policy = {
  allow: [],
  roles: { reader: { allow: ['posts__read'] }, editor: { allow: ['posts__*'] } },
};

@Module({ imports: [ToolLoopModule.forRoot({ model, policy })], providers: [PostTools] })
class BlogModule {}

const editor = { actor: { id: 'ed', roles: ['editor'] }, tenant: 'org_1' };
const reader = { actor: { id: 'rita', roles: ['reader'] }, tenant: 'org_1' };

/** Lists, calls and loops over the same tools; the callbacks see every call of every caller. */
export async function ash() {
  return withApplication(BlogModule, async (app) => {
    const loop: ToolLoopService = app.get(ToolLoopService);
    const told: string[] = [];
    const hooks: LoopHooks = {
      onToolStart: ({ tool }) => void told.push(`start ${tool.declaredId}`),
      onToolEnd: ({ tool, record }) => void told.push(`end ${tool.declaredId} ${record.status}`),
    };
    const listed = (await loop.list(reader)).map(({ id }) => id);
    const described = app.get(ToolCatalog).describe('posts__create');
    const direct = await loop.call({
      tool: 'posts__create',
      args: { title: 'By hand' },
      argsOrigin: 'application',
      ...editor,
      hooks,
    });
    const wrong = await loop.call({ tool: 'posts__read', args: { limit: 999 }, ...editor, hooks });
    const forbidden = await loop.call({
      tool: 'posts__publish',
      args: { id: 'p-1' },
      ...reader,
      hooks,
    });
    const result = await loop.run({
      prompt: 'Create a draft post about Elixir and publish it',
      ...editor,
      tools: ['posts__create', 'posts__publish'],
      limits: { steps: 5 },
      hooks,
    });
    const elsewhere = await loop.call({ tool: 'posts__read', ...editor, tenant: 'org_2' });
    return { listed, described, direct, wrong, forbidden, result, elsewhere, told };
  });
}

await runIfMain(import.meta.url, async () => {
  const { listed, direct, wrong, forbidden, result, elsewhere, told } = await ash();
  print('A reader is offered:', listed.join(', '));
  print('Called directly:', direct.ui);
  print('Wrong arguments:', wrong.record.error);
  print('Not permitted:', forbidden.record.error);
  print('The loop:', result.text, `(${result.toolCalls.length} calls in ${result.steps} steps)`);
  print('Another tenant reads:', elsewhere.ui);
  print('The callbacks were told:', told);
});

/**
 * A registry of tools, of which those that change something ask for a directive: a stored intent
 * that is performed once, later. A tenant is never an argument.
 *
 * `npm run example -- fleetprompt`
 */
import { Injectable, Module } from '@nestjs/common';
import {
  ActorDirectory,
  LlmTool,
  ToolContext,
  type ToolCallContext,
  ToolField,
  ToolInput,
  ToolLoopModule,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import { type DirectiveEvent, DirectiveService } from '@toolloop/core/directives';
import { ScriptedModel } from '@toolloop/testing';
import { IsString, IsUUID, MaxLength } from 'class-validator';
import { filter, firstValueFrom } from 'rxjs';
import { print, runIfMain, withApplication } from '../run.js';

interface Member {
  readonly id: string;
  readonly roles: readonly string[];
}

const ada: Member = { id: '0b7b52f2-90ea-4d0c-9d6e-5e6c6f3b1a10', roles: ['member'] };

/** Finds who asked, at the moment when the directive is performed: their roles of then decide. */
@Injectable()
class Members extends ActorDirectory<Member> {
  override find(actorId: string, tenant: string): Promise<Member | undefined> {
    return Promise.resolve(actorId === ada.id && tenant === 'org_demo' ? ada : undefined);
  }
}

class CreatePost {
  @ToolField({ description: 'The thread.' }) @IsUUID() thread_id!: string;
  @ToolField({ description: 'The words of the post.' })
  @IsString()
  @MaxLength(500)
  content!: string;
}

@Injectable()
@ToolProvider({ namespace: 'forum' })
class ForumTools {
  readonly posts: string[] = [];

  @LlmTool({ description: 'List the categories of the forum.', effect: 'read_only', reveal: 'all' })
  categories(@ToolContext() { tenant }: ToolCallContext): readonly string[] {
    return [`Help for ${tenant}`, 'News'];
  }

  @LlmTool({
    description: 'Create a post in a thread.',
    effect: 'state_change',
    reveal: 'all',
    preview: 'previewPost',
    directive: { type: 'forum.post.create', subject: '{thread_id}' },
  })
  createPost(
    @ToolInput() { content }: CreatePost,
    @ToolContext() { tenant }: ToolCallContext,
  ): string {
    this.posts.push(`${tenant}: ${content}`);
    return `post-${this.posts.length}`;
  }

  previewPost({ content }: CreatePost): string {
    return `creation of a post of ${content.length} characters`;
  }
}

@Module({
  imports: [
    ToolLoopModule.forRoot({
      model: new ScriptedModel([]),
      policy: { allow: [], roles: { member: { allow: ['forum__*', 'directives__status'] } } },
      directives: { operators: ['operator'] },
      providers: [{ provide: ActorDirectory, useClass: Members }],
    }),
  ],
  providers: [ForumTools],
})
class ForumModule {}

const THREAD = '7c9e6679-7425-40de-944b-e07fc1f90ae7';

/**
 * Lists the definitions, asks for a post twice under one request id, and tries to choose another
 * tenant.
 */
export async function fleetprompt() {
  return withApplication(ForumModule, async (app) => {
    const loop: ToolLoopService = app.get(ToolLoopService);
    const directives: DirectiveService = app.get(DirectiveService);
    const who = { actor: ada, tenant: 'org_demo' };
    const performed = firstValueFrom(
      directives.events$.pipe(filter(({ event }: DirectiveEvent) => event === 'succeeded')),
    );
    const definitions = (await loop.list(who)).map(({ id, description, inputSchema }) => ({
      type: 'function',
      function: { name: id, description, parameters: inputSchema },
    }));
    const args = { thread_id: THREAD, content: 'Hello.' };
    const post = {
      tool: 'forum__createPost',
      args,
      argsOrigin: 'actor' as const,
      ...who,
      requestId: 'client-1',
    };
    const requested = await loop.call(post);
    const repeated = await loop.call(post);
    const overridden = await loop.call({ ...post, args: { ...post.args, tenant: 'org_other' } });
    const { subject } = await performed;
    return {
      definitions,
      requested,
      repeated,
      overridden,
      subject,
      posts: [...app.get(ForumTools).posts],
    };
  });
}

await runIfMain(import.meta.url, async () => {
  const { definitions, requested, repeated, overridden, posts } = await fleetprompt();
  print('Definitions:', definitions.map(({ function: { name } }) => name).join(', '));
  print('Asked for:', requested.ui);
  print('Asked again:', repeated.ui);
  print('Another tenant in the arguments:', overridden.record.error);
  print('Performed, once:', posts);
});

/**
 * The server behind the page of `app/page.tsx`, which talks with it by `useChat` of the AI SDK.
 *
 * `npm run example -- chat-ui`
 */
import { Injectable, Module } from '@nestjs/common';
import { ActorDirectory, LlmTool, ToolLoopModule, ToolParam, ToolProvider } from '@toolloop/core';
import { type HttpRequest, ToolLoopHttpModule } from '@toolloop/http';
import { offline } from '@toolloop/offline';
import { runIfMain, serve } from '../run.js';

const ANN = { id: 'ann' };

@Injectable()
class People extends ActorDirectory<typeof ANN> {
  override find(id: string): Promise<typeof ANN | undefined> {
    return Promise.resolve(id === ANN.id ? ANN : undefined);
  }
}

@Injectable()
@ToolProvider({ namespace: 'lights' })
export class LightTools {
  readonly lit = new Set<string>();

  @LlmTool({ description: 'Switch on the light in a room.', effect: 'state_change', reveal: 'all' })
  switchOn(
    @ToolParam('room', { description: 'The room, such as kitchen', enum: ['kitchen', 'bedroom'] })
    room: string,
  ): string {
    this.lit.add(room);
    return `The light in the ${room} is on.`;
  }
}

@Module({
  imports: [
    ToolLoopModule.forRoot({
      model: offline(),
      policy: {
        allow: ['lights__*'],
        requireApproval: [{ tools: ['lights__*'], reason: 'Someone may be asleep.' }],
      },
      providers: [{ provide: ActorDirectory, useClass: People }],
    }),
    ToolLoopHttpModule.forRoot({
      identity: ({ headers }: HttpRequest) =>
        headers.authorization === 'Bearer ann' ? { actor: ANN, tenant: 'home' } : undefined,
      protocols: ['ai-sdk'],
    }),
  ],
  providers: [LightTools],
})
export class ChatUiModule {}

await runIfMain(import.meta.url, () => serve(ChatUiModule));

import {
  Injectable,
  Logger,
  Module,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
} from '@nestjs/common';
import {
  ActorDirectory,
  LlmTool,
  type ToolCallContext,
  ToolContext,
  ToolLoopModule,
  ToolProvider,
} from '@toolloop/core';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { writeFileSync } from 'node:fs';
import { Note, NotesModule } from '../../mcp/test/server/notes.js';

const PEOPLE = [
  { id: 'alice', tenant: 'acme', roles: ['clerk'] },
  { id: 'bob', tenant: 'globex', roles: ['clerk'] },
];

@Injectable()
class Staff extends ActorDirectory {
  override find(actorId: string, tenant: string): Promise<unknown> {
    return Promise.resolve(PEOPLE.find((one) => one.id === actorId && one.tenant === tenant));
  }
}

/** Prints where it should not, as applications do, and leaves a file when it is closed. */
@Injectable()
class Talker implements OnApplicationBootstrap, OnApplicationShutdown {
  onApplicationBootstrap(): void {
    console.log('printed by the application');
    new Logger('Talker').warn('logged by the application');
  }

  onApplicationShutdown(): void {
    const file = process.env['SPEC_CLOSED'];
    if (file) writeFileSync(file, 'closed');
  }
}

/** Asks the person at the terminal to fill in a form. */
@ToolProvider({ namespace: 'forms' })
class FormTools {
  @LlmTool({ description: 'Asks for a parcel.', effect: 'read_only', reveal: 'all' })
  async parcel(@ToolContext() context: ToolCallContext): Promise<unknown> {
    return context.ask({
      key: 'parcel',
      question: 'Which parcel is it?',
      schema: {
        type: 'object',
        properties: {
          grams: { type: 'integer', title: 'Weight', description: 'in grams' },
          express: { type: 'boolean' },
          size: { type: 'string', enum: ['S', 'M'], default: 'M' },
          note: { type: 'string' },
        },
        required: ['grams', 'express'],
      },
    });
  }
}

const SENDS = [calls(call('notes__send', { to: 'bob' })), text('It is sent.')];
const FORM = calls(call('forms__parcel'));
const ASKS = [FORM, text('It is noted.'), FORM];

const POLICY = {
  version: '1',
  flow: 'off',
  allow: ['notes__*', 'note_*_*', 'forms__*'],
  requireApproval: [{ tools: ['notes__send'], reason: 'Mail leaves the house.' }],
  roles: { clerk: { allow: ['notes__*', 'note_*_*', 'forms__*'], deny: ['notes__manage'] } },
} as const;

/** An application that serves nothing over MCP itself. */
@Module({
  imports: [
    ToolLoopModule.forRoot({
      model: new ScriptedModel(process.env['SPEC_ASKS'] ? ASKS : SENDS),
      policy: POLICY,
    }),
    ToolLoopModule.forFeature({ entities: [Note] }),
    NotesModule,
  ],
  providers: [Staff, Talker, FormTools],
})
export class AppModule {}

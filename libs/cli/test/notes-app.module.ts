import { Injectable, Logger, Module, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { ActorDirectory, ToolLoopModule } from '@toolloop/core';
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

const POLICY = {
  version: '1',
  flow: 'off',
  allow: ['notes__*', 'note_*_*'],
  requireApproval: [{ tools: ['notes__send'], reason: 'Mail leaves the house.' }],
  roles: { clerk: { allow: ['notes__*', 'note_*_*'], deny: ['notes__manage'] } },
} as const;

/** An application that serves nothing over MCP itself. */
@Module({
  imports: [
    ToolLoopModule.forRoot({ model: new ScriptedModel([calls(call('notes__send', { to: 'bob' })), text('It is sent.')]), policy: POLICY }),
    ToolLoopModule.forFeature({ entities: [Note] }),
    NotesModule,
  ],
  providers: [Staff, Talker],
})
export class AppModule {}

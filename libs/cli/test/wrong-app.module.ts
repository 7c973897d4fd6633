import { Module } from '@nestjs/common';
import { ToolLoopModule } from '@toolloop/core';
import { ScriptedModel } from '@toolloop/testing';

/** An application whose policy names a tool that there is not. */
@Module({
  imports: [
    ToolLoopModule.forRoot({
      model: new ScriptedModel([]),
      policy: { version: '1', allow: ['wrong__nothing'] },
    }),
  ],
})
export class AppModule {}

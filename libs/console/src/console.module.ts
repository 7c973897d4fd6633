import { ConfigurableModuleBuilder, Module } from '@nestjs/common';
import { RouterModule } from '@nestjs/core';
import { ConsoleController, ConsoleGate } from './console.controller.js';
import { ConsoleFeed } from './console-feed.js';
import { Evaluations, EvaluationsController } from './evaluations.controller.js';
import {
  CONSOLE_OPTIONS,
  CONSOLE_PATH,
  type ConsoleExtras,
  type ConsoleOptions,
} from './console-options.js';
import { ConsoleSessions } from './console-sessions.js';

const { ConfigurableModuleClass } = new ConfigurableModuleBuilder<ConsoleOptions>({
  optionsInjectionToken: CONSOLE_OPTIONS,
})
  .setClassMethodName('forRoot')
  .setExtras<ConsoleExtras>({ path: 'console' }, (definition, { path = 'console' }) => {
    const trimmed = path.replace(/^\/+|\/+$/g, '');
    return {
      ...definition,
      imports: [...(definition.imports ?? []), prefixed(trimmed)],
      providers: [...(definition.providers ?? []), { provide: CONSOLE_PATH, useValue: trimmed }],
    };
  })
  .build();

/**
 * The web console of the application: chat, runs, what waits for people, tools. Import it beside
 * `ToolLoopHttpModule.forRoot`, and say who is let in.
 *
 * @example
 * ConsoleModule.forRoot({
 *   login: ({ name, password }) => users.withPassword(name, password),
 *   secret: process.env.CONSOLE_SECRET,
 * });
 */
@Module({
  controllers: [ConsoleController, EvaluationsController],
  providers: [ConsoleSessions, ConsoleFeed, ConsoleGate, Evaluations],
  exports: [ConsoleSessions],
})
export class ConsoleModule extends ConfigurableModuleClass {}

function prefixed(path: string): ReturnType<typeof RouterModule.register> {
  return RouterModule.register([{ path, module: ConsoleModule }]);
}

import { Inject } from '@nestjs/common';

/** What a named loop is provided under, for `overrideProvider` and `app.get`. It is a text that explains itself: Nest shows it where there is no such loop. */
export function toolLoopToken(name: string): string {
  return `loop ${JSON.stringify(name)} of ToolLoopModule.forFeature({ loops: { … } })`;
}

/** Injects the `ToolLoopService` of a named loop, in any module of the application. */
export function InjectToolLoop(name: string): ParameterDecorator & PropertyDecorator {
  return Inject(toolLoopToken(name));
}

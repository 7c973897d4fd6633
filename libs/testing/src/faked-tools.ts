import { ToolInterceptor } from '@toolloop/core';
import type { ToolCallContext, ToolInvocation } from '@toolloop/core';

interface Faked {
  fake(input: unknown, context: ToolCallContext): unknown;
}

/**
 * What a tool does instead of its method. It receives the validated input and may return what the method may, a live entity included. The type is a
 * method's, so that a fake can name the input class it expects.
 */
export type ToolFake = Faked['fake'];

/** The fakes of one testing module, by declared id: the innermost interceptor, which answers in the place of those tools. */
export class FakedTools extends ToolInterceptor {
  private readonly fakes = new Map<string, ToolFake>();

  get declaredIds(): readonly string[] {
    return [...this.fakes.keys()];
  }

  put(declaredId: string, fake: ToolFake): void {
    this.fakes.set(declaredId, fake);
  }

  override intercept({ tool, input, context }: ToolInvocation, next: () => Promise<unknown>): Promise<unknown> {
    const fake = this.fakes.get(tool.declaredId);
    return fake ? Promise.resolve().then(() => fake(input, context)) : next();
  }
}

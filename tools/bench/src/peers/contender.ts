import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Answer, DeclaredTool, Order, Slice, SliceReport } from './slice.js';

/** The process of one contender, as its parent knows it. */
export class Contender<Name extends string = string> {
  private constructor(
    readonly name: Name,
    readonly tools: readonly DeclaredTool[],
    private readonly child: ChildProcess,
  ) {}

  /**
   * Starts a contender.
   *
   * @param tools those that the model is offered; Toolloop brings its own
   * @param further tools that Toolloop brings beside those of the task
   * @throws Error with its message if it cannot start, such as a peer that is not installed
   */
  static async start<Name extends string>(
    name: Name,
    {
      tools,
      further = 0,
      certificate,
    }: {
      readonly tools: readonly DeclaredTool[];
      readonly further?: number;
      readonly certificate?: string;
    },
  ): Promise<Contender<Name>> {
    const env = {
      ...process.env,
      ...(certificate !== undefined && { NODE_EXTRA_CA_CERTS: certificate }),
    };
    const script = fileURLToPath(new URL('contender.process.js', import.meta.url));
    const child = fork(script, [name, String(further)], { execArgv: ['--expose-gc'], env });
    const ready = await ask(child, { type: 'tools', tools });
    if (ready.type === 'ready') return new Contender(name, ready.tools, child);
    child.disconnect();
    throw new Error(
      ready.type === 'failed' ? ready.message : `${name} did not say that it is ready.`,
    );
  }

  /** @throws Error if a run did not do the task whole */
  async slice(slice: Slice): Promise<SliceReport> {
    const answer = await ask(this.child, { type: 'slice', ...slice });
    if (answer.type === 'report') return answer.report;
    throw new Error(`${this.name}: ${answer.type === 'failed' ? answer.message : 'no report'}`);
  }

  async stop(): Promise<void> {
    const exited = once(this.child, 'exit');
    this.child.disconnect();
    await exited;
  }
}

function ask(child: ChildProcess, order: Order): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const onExit = (code: number | null): void =>
      reject(new Error(`A contender's process ended with ${code}.`));
    child.once('exit', onExit);
    child.once('message', (answer: Answer) => {
      child.off('exit', onExit);
      resolve(answer);
    });
    child.send(order);
  });
}

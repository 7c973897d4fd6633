import { HttpException, Injectable } from '@nestjs/common';
import type { JsonObject, ToolFailure } from '@toolloop/protocol';
import type { Tool, ToolLayers } from '../contracts/tool.js';
import { canonicalJson, fromCanonical } from '../schema/canonical-json.js';
import { compileReveal } from '../schema/reveal.js';
import { CallContextFactory, ToolCallStorage } from './call-context.js';
import { CallFailure, explained, failureOf, Interruption, untilAborted } from './call-failure.js';
import type { CallProgress } from './call.js';
import { type ReadArguments, readInput } from './read-arguments.js';

/** The first half of stage 4: Nest's guards and pipes, where a tool has any. What they do not clearly let in stays out. */
@Injectable()
export class CallAdmission {
  private readonly json = compileReveal('all');

  constructor(
    private readonly contexts: CallContextFactory,
    private readonly storage: ToolCallStorage,
  ) {}

  /** The input as the pipes made it, rebuilt from its canonical JSON. Throws `forbidden` or `invalid_args`. */
  admit(tool: Tool, input: ReadArguments, progress: CallProgress): ReadArguments | Promise<ReadArguments> {
    return tool.layers ? this.piped(tool, input, progress) : input;
  }

  private async piped(tool: Tool, input: ReadArguments, progress: CallProgress): Promise<ReadArguments> {
    const piped = await this.throughLayers(tool, input, progress);
    return piped === input.built ? input : this.rebuilt(tool, piped, progress);
  }

  /** Within the tool's time limit, like everything that is the application's own code. */
  private async throughLayers(tool: Tool, input: ReadArguments, progress: CallProgress): Promise<unknown> {
    const { context, close } = this.contexts.open(tool, progress);
    let layers: ToolLayers | undefined;
    try {
      layers = tool.layers && (await untilAborted(Promise.resolve(tool.layers(progress.scope.run)), context.signal));
      if (!layers) return input.built;
      const { admit } = layers;
      const admitted = this.storage.run(context, () => admit(input.built, context));
      return await untilAborted(admitted, context.signal);
    } catch (error) {
      if (context.signal.aborted) throw Interruption.from(context.signal);
      const known = await explained(layers, error, { input: input.built, context });
      throw new CallFailure(refusalOf(error, known), { cause: error });
    } finally {
      close();
    }
  }

  /** What was approved and stored is what runs: the method receives what the JSON of the pipes' result gives. */
  private async rebuilt(tool: Tool, piped: unknown, { options }: CallProgress): Promise<ReadArguments> {
    const canonical = canonicalJson(this.json.project({ ...asRecord(piped) }, 'audit'));
    const args: JsonObject = fromCanonical(canonical);
    const reading = await readInput(tool.input, args, options);
    if ('problems' in reading) throw CallFailure.of('invalid_args', 'The arguments are not valid.', reading.problems);
    return { canonical, args, built: reading.value };
  }
}

function asRecord(value: unknown): object {
  return typeof value === 'object' && value !== null ? value : {};
}

/** A guard that throws anything but a bad request did not let the call in, whatever it meant. */
function refusalOf(error: unknown, explanation: ToolFailure | undefined): ToolFailure {
  const failure = explanation ?? failureOf(error);
  const status = error instanceof HttpException ? error.getStatus() : undefined;
  if (error instanceof HttpException && (status === 400 || status === 422))
    return { ...failure, code: 'invalid_args', ...problemsOf(error) };
  if (status === 429) return { ...failure, code: 'budget_exceeded', retryable: true };
  const isTold = explanation !== undefined || failure.correlationId === undefined;
  return isTold ? { ...failure, code: 'forbidden' } : { ...failure, code: 'forbidden', safeMessage: 'The call was not permitted.' };
}

/** Nest's validation pipe says everything in a list. */
function problemsOf(error: HttpException): Pick<ToolFailure, 'problems'> {
  const response = error.getResponse();
  const messages: unknown = typeof response === 'object' && 'message' in response ? response.message : undefined;
  if (!Array.isArray(messages)) return {};
  return { problems: messages.slice(0, 10).map((message) => ({ pointer: '', message: String(message) })) };
}

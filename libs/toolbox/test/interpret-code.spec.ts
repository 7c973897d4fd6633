import { describe, expect, it } from '@jest/globals';
import { CodeInterpreter, InterpretCode, type CodeOutcome } from '@toolloop/toolbox';

class ScriptedInterpreter extends CodeInterpreter {
  signal: AbortSignal | undefined;

  constructor(private readonly outcome: Promise<CodeOutcome>) {
    super();
  }

  run(_code: string, _language: string, signal: AbortSignal): Promise<CodeOutcome> {
    this.signal = signal;
    return this.outcome;
  }
}

const printed = { stdout: 'x'.repeat(30), stderr: '', exitCode: 1 };
const never = new Promise<CodeOutcome>(() => undefined);

describe('code__interpret', () => {
  it('shows what the interpreter printed, up to a limit', async () => {
    const interpreter = new ScriptedInterpreter(Promise.resolve(printed));
    const tool = new InterpretCode({ interpreter, maxCharacters: 20 });
    expect(await tool.call({ code: 'print()', language: 'python' })).toEqual({
      ...printed,
      stdout: 'x'.repeat(20),
      truncated: true,
    });
  });

  it('refuses a language that is not on the list', async () => {
    const tool = new InterpretCode({
      interpreter: new ScriptedInterpreter(never),
      languages: ['python', 'sql'],
    });
    await expect(tool.call({ code: 'x', language: 'bash' })).rejects.toThrow(
      'Use one of: python, sql.',
    );
  });

  it('stops the program when the time is up', async () => {
    const interpreter = new ScriptedInterpreter(never);
    const call = new InterpretCode({ interpreter, timeoutMs: 20 }).call({
      code: 'x',
      language: 'python',
    });
    await expect(call).rejects.toMatchObject({ name: 'ToolError', retryable: false });
    expect(interpreter.signal?.aborted).toBe(true);
  });

  it('stops the program when the caller gives up', async () => {
    const interpreter = new ScriptedInterpreter(never);
    const caller = new AbortController();
    const call = new InterpretCode({ interpreter }).call(
      { code: 'x', language: 'python' },
      { signal: caller.signal },
    );
    caller.abort(new Error('enough'));
    await expect(call).rejects.toThrow('enough');
    expect(interpreter.signal?.aborted).toBe(true);
  });

  it('is an external side effect that can carry data out', () => {
    expect(InterpretCode.tool).toMatchObject({
      effect: 'external_side_effect',
      labels: { egress: true, returns: 'untrusted' },
    });
  });
});

/** The parts of a chunk that a driver written by hand reads. */
interface ChunkDelta {
  readonly content?: string | null;
  readonly tool_calls?: readonly {
    readonly id?: string;
    readonly function: { readonly name?: string; readonly arguments: string };
  }[];
}

/** The first choice's delta. It trusts the provider, as a floor may. */
export function deltaOf(chunk: unknown): ChunkDelta | undefined {
  return (chunk as { readonly choices: readonly { readonly delta: ChunkDelta }[] }).choices[0]
    ?.delta;
}

/** Who has a folder. */
export interface Claim {
  readonly pid: number;
  readonly host: string;
  /** When the process began, so that another one of the same id is told apart. */
  readonly began?: string;
}

/** Reads what a process wrote; undefined for what was not written to its end. */
export function fromClaim(text: string): Claim | undefined {
  try {
    const claim = JSON.parse(text) as Claim;
    return Number.isSafeInteger(claim.pid) && typeof claim.host === 'string' ? claim : undefined;
  } catch {
    return undefined;
  }
}

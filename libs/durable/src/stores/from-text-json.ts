/** A text that was kept as JSON, since it may hold what a text of the database may not. */
export function fromTextJson(json: string): string {
  return JSON.parse(json) as string;
}

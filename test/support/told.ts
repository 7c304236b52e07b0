/**
 * Assertions in loops of thousands: the text that tells of a failure costs more than what is tested, and is made where one fails.
 */

/** Runs an assertion. @throws an Error with `tell()` for its message where it fails, and the failure as its cause */
export function told(check: () => void, tell: () => string): void {
  try {
    check();
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${tell()}`, { cause: error });
  }
}

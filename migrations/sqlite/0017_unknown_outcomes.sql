-- A request with an unknown outcome makes no room for new ones: without it, a standing grant would repeat the call.
UPDATE approval_requests SET room_at = NULL WHERE state = 'unknown';
